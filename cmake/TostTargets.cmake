# tost_library and tost_tests: every layer is declared with these two.

# Installed programs and libraries find each other, and the torch they were built with.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN;${TOST_TORCH_DIR}/lib")

# Sources of a target are compiled this many at a time: most of what a source costs is what the headers of torch cost
# wherever they are included. 0 compiles each alone.
set(TOST_JOIN 8 CACHE STRING "Sources compiled as one; 0: each alone")
function(tost_join target)
  if(TOST_JOIN GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${TOST_JOIN})
  endif()
endfunction()

# For code whose time is spent in other libraries, so that a faster compilation is worth more than faster code.
function(tost_light target)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# tost_library(NAME tost_x SOURCES a.cc ... DEPS tost_base ... [TORCH] [LIGHT] [APART])
# TORCH: links LibTorch and uses the one precompiled header that all torch layers share. LIGHT: see tost_light.
# APART: sources are not joined.
function(tost_library)
  cmake_parse_arguments(L "TORCH;LIGHT;APART" "NAME" "SOURCES;DEPS" ${ARGN})
  add_library(${L_NAME} STATIC ${L_SOURCES})
  add_library(tost::${L_NAME} ALIAS ${L_NAME})
  target_link_libraries(${L_NAME} PUBLIC tost_flags ${L_DEPS})
  if(L_TORCH)
    tost_use_torch(${L_NAME})
  endif()
  if(NOT L_APART)
    tost_join(${L_NAME})
  endif()
  if(L_LIGHT)
    tost_light(${L_NAME})
  endif()
  set_property(GLOBAL APPEND PROPERTY TOST_LIBRARIES ${L_NAME})
endfunction()

# Whether a source needs the precompiled header: it or a header of ours that it includes names torch. Loading the
# header costs five seconds even where nothing of it is used. A wrong answer costs time, never correctness.
function(tost_includes_torch file out)
  get_property(known GLOBAL PROPERTY "TOST_TORCH_${file}")
  if(NOT "${known}" STREQUAL "")
    set(${out} ${known} PARENT_SCOPE)
    return()
  endif()
  set_property(GLOBAL PROPERTY "TOST_TORCH_${file}" FALSE)  # ends circles
  set(answer FALSE)
  if(EXISTS ${file})
    file(STRINGS ${file} lines REGEX "^#include")
    foreach(line IN LISTS lines)
      if(line MATCHES "[<\"](torch|ATen|c10)/|tost/torch.h")
        set(answer TRUE)
      elseif(line MATCHES "\"(tost/[^\"]+)\"")
        tost_includes_torch(${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1} answer)
      endif()
      if(answer)
        break()
      endif()
    endforeach()
  endif()
  set_property(GLOBAL PROPERTY "TOST_TORCH_${file}" ${answer})
  set(${out} ${answer} PARENT_SCOPE)
endfunction()

function(tost_use_torch target)
  target_link_libraries(${target} PUBLIC tost_torch_cpu)
  if(NOT TARGET tost_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/pch/tost_pch.cc "")
    add_library(tost_pch STATIC ${CMAKE_BINARY_DIR}/pch/tost_pch.cc)
    set_target_properties(tost_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(tost_pch PRIVATE -fPIC)
    target_link_libraries(tost_pch PUBLIC tost_flags tost_torch_cpu)
    target_precompile_headers(tost_pch PRIVATE "${PROJECT_SOURCE_DIR}/tost/torch.h" <nlohmann/json.hpp> <filesystem> <map>
                              <memory> <optional> <sstream> <string> <vector>)
  endif()
  # A precompiled header only serves code compiled with the same flags, so executables get -fPIC, not -fPIE.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM tost_pch)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    tost_includes_torch(${CMAKE_CURRENT_SOURCE_DIR}/${source} needed)
    if(NOT needed)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# tost_tests(NAME x SOURCES a_test.cc ... DEPS tost_x ... [TORCH] [APART]) builds tests/x_tests. Suites or tests
# with "Slow" in their name get the ctest label `slow`, all others `fast`.
function(tost_tests)
  if(NOT TOST_BUILD_TESTS OR TOST_OPS_ONLY)
    return()
  endif()
  cmake_parse_arguments(T "TORCH;APART" "NAME" "SOURCES;DEPS" ${ARGN})
  set(target ${T_NAME}_tests)
  add_executable(${target} ${T_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${target} PRIVATE tost_flags ${T_DEPS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE TOST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(T_TORCH)
    tost_use_torch(${target})
  endif()
  if(NOT T_APART)
    tost_join(${target})
    tost_light(${target})
  endif()
  include(GoogleTest)
  gtest_discover_tests(${target} TEST_PREFIX ${T_NAME}. TEST_FILTER "-*Slow*" DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS fast TIMEOUT 300)
  gtest_discover_tests(${target} TEST_PREFIX ${T_NAME}. TEST_FILTER "*Slow*" DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS slow TIMEOUT 1200)
endfunction()
