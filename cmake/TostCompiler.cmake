# Language level, warnings, ccache and sanitizers for every target of this build.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(TOST_CCACHE ccache)
if(TOST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers carry time stamps; ccache has to be told that these may differ.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TOST_CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

add_library(tost_flags INTERFACE)
target_compile_features(tost_flags INTERFACE cxx_std_20)
# Designated initializers name what differs from the defaults.
target_compile_options(tost_flags INTERFACE $<BUILD_INTERFACE:-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers>)
# g++ 12 warns of overlapping copies inside std::string that cannot happen.
target_compile_options(tost_flags INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>>)
target_include_directories(tost_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                $<INSTALL_INTERFACE:include>)
if(TOST_SANITIZE)
  # Without -Wmaybe-uninitialized, which g++ reports wrongly of instrumented code.
  add_compile_options(-fsanitize=${TOST_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined
                      -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${TOST_SANITIZE})
endif()
