# tost_library and tost_tests: every layer is declared with these two.

# tost_library(NAME tost_x SOURCES a.cc ... DEPS tost_base ... [TORCH])
# TORCH: links LibTorch and uses the one precompiled header that all torch layers share.
function(tost_library)
  cmake_parse_arguments(L "TORCH" "NAME" "SOURCES;DEPS" ${ARGN})
  add_library(${L_NAME} STATIC ${L_SOURCES})
  add_library(tost::${L_NAME} ALIAS ${L_NAME})
  target_link_libraries(${L_NAME} PUBLIC tost_flags ${L_DEPS})
  if(L_TORCH)
    tost_use_torch(${L_NAME})
  endif()
  set_property(GLOBAL APPEND PROPERTY TOST_LIBRARIES ${L_NAME})
endfunction()

function(tost_use_torch target)
  target_link_libraries(${target} PUBLIC tost_torch_cpu)
  if(NOT TARGET tost_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/pch/tost_pch.cc "")
    add_library(tost_pch STATIC ${CMAKE_BINARY_DIR}/pch/tost_pch.cc)
    set_target_properties(tost_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(tost_pch PRIVATE -fPIC)
    target_link_libraries(tost_pch PUBLIC tost_flags tost_torch_cpu)
    target_precompile_headers(tost_pch PRIVATE <torch/torch.h> <nlohmann/json.hpp> <filesystem> <map>
                              <memory> <optional> <sstream> <string> <vector>)
  endif()
  # A precompiled header only serves code compiled with the same flags, so executables get -fPIC, not -fPIE.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM tost_pch)
endfunction()

# tost_tests(NAME x SOURCES a_test.cc ... DEPS tost_x ... [TORCH]) builds tests/x_tests. Suites or tests
# with "Slow" in their name get the ctest label `slow`, all others `fast`.
function(tost_tests)
  if(NOT TOST_BUILD_TESTS OR TOST_OPS_ONLY)
    return()
  endif()
  cmake_parse_arguments(T "TORCH" "NAME" "SOURCES;DEPS" ${ARGN})
  set(target ${T_NAME}_tests)
  add_executable(${target} ${T_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${target} PRIVATE tost_flags ${T_DEPS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE TOST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(T_TORCH)
    tost_use_torch(${target})
  endif()
  include(GoogleTest)
  gtest_discover_tests(${target} TEST_PREFIX ${T_NAME}. TEST_FILTER "-*Slow*" DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS fast TIMEOUT 300)
  gtest_discover_tests(${target} TEST_PREFIX ${T_NAME}. TEST_FILTER "*Slow*" DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS slow TIMEOUT 1200)
endfunction()
