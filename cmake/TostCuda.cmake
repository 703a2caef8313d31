# The CUDA parts: nvcc, torch's CUDA libraries, and tost_cuda_objects(). CMake's own CUDA language is not used: 3.25 does
# not know the C++20 dialect, and its way of linking wants more of the toolkit than torch's libraries leave room for.
#   TOST_NVCC                 the compiler (default: on PATH, then /usr/local/cuda)
#   TOST_CUDA_ARCHITECTURES   default 80;90: code for these, and PTX of the last for newer ones
find_program(TOST_NVCC nvcc PATHS /usr/local/cuda/bin)
if(NOT TOST_NVCC)
  message(FATAL_ERROR "TOST_CUDA needs nvcc. Install the CUDA toolkit, put nvcc on PATH, or set TOST_NVCC.")
endif()
set(TOST_CUDA_ARCHITECTURES "80;90" CACHE STRING "Compute capabilities to compile for")
get_filename_component(tost_cuda_home ${TOST_NVCC} REALPATH)
get_filename_component(tost_cuda_home ${tost_cuda_home}/../.. ABSOLUTE)
# Those of the compiler, before others that a system may have.
find_path(TOST_CUDA_INCLUDE cuda_runtime.h HINTS ${tost_cuda_home}/include REQUIRED)

tost_import_library(tost_c10_cuda ${TOST_TORCH_DIR}/lib/libc10_cuda.so)
tost_import_library(tost_libtorch_cuda ${TOST_TORCH_DIR}/lib/libtorch_cuda.so)
# The runtime torch uses, never a second one.
file(GLOB tost_cudart ${TOST_TORCH_DIR}/../nvidia/cu*/lib/libcudart.so.*
     ${TOST_TORCH_DIR}/../nvidia/cuda_runtime/lib/libcudart.so.*)
if(NOT tost_cudart)
  file(GLOB tost_cudart ${tost_cuda_home}/lib64/libcudart.so)
endif()
if(NOT tost_cudart)
  message(FATAL_ERROR "No libcudart beside torch in '${TOST_TORCH_DIR}' nor in '${tost_cuda_home}'.")
endif()
list(GET tost_cudart 0 tost_cudart)
tost_import_library(tost_cudart_runtime ${tost_cudart})
if(NOT TARGET tost_torch_cuda)
  add_library(tost_torch_cuda INTERFACE IMPORTED GLOBAL)
  target_include_directories(tost_torch_cuda SYSTEM INTERFACE ${TOST_CUDA_INCLUDE})
  target_link_libraries(tost_torch_cuda INTERFACE tost_torch_cpu tost_c10_cuda tost_cudart_runtime)
  # Nothing calls libtorch_cuda by name, yet its kernels have to be there; what it needs itself it finds beside it.
  target_link_options(tost_torch_cuda INTERFACE
    "LINKER:--push-state,--no-as-needed,${TOST_TORCH_DIR}/lib/libtorch_cuda.so,--pop-state" LINKER:--allow-shlib-undefined)
endif()
message(STATUS "CUDA: ${TOST_NVCC} for ${TOST_CUDA_ARCHITECTURES}")

# tost_cuda_objects(target a.cu ...): compiles them by nvcc into the target.
function(tost_cuda_objects target)
  set(flags -std=c++20 -O3 -lineinfo -Xcompiler=-fPIC,-Wall,-Wextra -I${PROJECT_SOURCE_DIR} -Xptxas=-v)
  foreach(architecture IN LISTS TOST_CUDA_ARCHITECTURES)
    list(APPEND flags -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET TOST_CUDA_ARCHITECTURES -1 last)
  list(APPEND flags -gencode=arch=compute_${last},code=compute_${last})
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.o)
    # What ptxas says of registers and spills is kept beside the object.
    add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d
      COMMAND sh -c "${TOST_NVCC} $* > ${object}.txt 2>&1 || { cat ${object}.txt; exit 1; }" nvcc
              ${flags} -MD -MF ${object}.d -c ${source} -o ${object}
      COMMENT "Compiling ${name}.cu for the GPU" VERBATIM)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()
