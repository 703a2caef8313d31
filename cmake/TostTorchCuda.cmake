# The CUDA libraries of a torch wheel as the imported target tost_torch_cuda, which brings tost_torch_cpu. Nothing is
# compiled for GPUs, so no compiler for them is needed. TOST_CUDA_HOME: a toolkit, where the wheel brings no runtime of CUDA
# or no headers, which only this project's own sources need.
tost_import_library(tost_c10_cuda ${TOST_TORCH_DIR}/lib/libc10_cuda.so)
tost_import_library(tost_libtorch_cuda ${TOST_TORCH_DIR}/lib/libtorch_cuda.so)
# The runtime torch uses, never a second one.
file(GLOB tost_cudart ${TOST_TORCH_DIR}/../nvidia/cu*/lib/libcudart.so.*
     ${TOST_TORCH_DIR}/../nvidia/cuda_runtime/lib/libcudart.so.*)
if(NOT tost_cudart)
  file(GLOB tost_cudart ${TOST_CUDA_HOME}/lib64/libcudart.so)
endif()
if(NOT tost_cudart)
  message(FATAL_ERROR "No libcudart next to torch in '${TOST_TORCH_DIR}' nor in '${TOST_CUDA_HOME}'.")
endif()
list(GET tost_cudart 0 tost_cudart)
tost_import_library(tost_cudart_runtime ${tost_cudart})
file(GLOB tost_cuda_includes ${TOST_TORCH_DIR}/../nvidia/cu*/include)
list(PREPEND tost_cuda_includes ${TOST_CUDA_HOME}/include)
# Wheels bring this one as a package of its own.
find_path(TOST_CUDA_INCLUDE crt/host_defines.h PATHS ${tost_cuda_includes} NO_DEFAULT_PATH)
if(NOT TARGET tost_torch_cuda)
  add_library(tost_torch_cuda INTERFACE IMPORTED GLOBAL)
  target_include_directories(tost_torch_cuda SYSTEM INTERFACE ${tost_cuda_includes})
  target_link_libraries(tost_torch_cuda INTERFACE tost_torch_cpu tost_c10_cuda tost_cudart_runtime)
  # Nothing calls libtorch_cuda by name, yet its kernels have to be there; what it needs itself it finds next to it.
  target_link_options(tost_torch_cuda INTERFACE
    "LINKER:--push-state,--no-as-needed,${TOST_TORCH_DIR}/lib/libtorch_cuda.so,--pop-state" LINKER:--allow-shlib-undefined)
endif()
