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

set(TOST_CUDA_HOME ${tost_cuda_home} CACHE INTERNAL "toolkit of the compiler")
include(${CMAKE_CURRENT_LIST_DIR}/TostTorchCuda.cmake)
target_include_directories(tost_torch_cuda SYSTEM INTERFACE ${TOST_CUDA_INCLUDE})
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
    # What ptxas says of registers and spills is kept next to the object.
    add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d
      COMMAND sh -c "${TOST_NVCC} $* > ${object}.txt 2>&1 || { cat ${object}.txt; exit 1; }" nvcc
              ${flags} -MD -MF ${object}.d -c ${source} -o ${object}
      COMMENT "Compiling ${name}.cu for the GPU" VERBATIM)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()
