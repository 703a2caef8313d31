# Install tree: bin/tost, share/tost/models, lib/libtost_torch.so, the layers as static libraries, public headers, and a
# package that find_package(tost) reads. It remembers the torch it was built with; TOST_TORCH points to another one.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tost)

get_property(libraries GLOBAL PROPERTY TOST_LIBRARIES)
add_library(tost_umbrella INTERFACE)
set_target_properties(tost_umbrella PROPERTIES EXPORT_NAME tost)
target_link_libraries(tost_umbrella INTERFACE ${libraries})
add_library(tost::tost ALIAS tost_umbrella)

install(TARGETS tost_flags tost_umbrella ${libraries} EXPORT tostTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tost)
  install(TARGETS tost tost_small tost_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/ DESTINATION share/tost/models)
endif()

# What users may include; docs/cpp.md says what each is for. Installed with the headers that these include.
set(public_headers
    tost/base/error.h
    tost/engine/generate.h tost/kinds/vision/image_runner.h tost/kinds/language/file.h tost/kinds/language/engine.h
    tost/kinds/vision/model_file.h tost/kinds/sequence/file.h tost/kinds/sequence/eval.h
    tost/kinds/vision/image_classifier.h tost/kinds/language/model.h tost/kinds/sequence/classifier.h
    tost/kinds/vision/config.h
    tost/ops/coding_rate.h tost/ops/plain.h tost/ops/tssa.h tost/ops/tssa_causal.h
    tost/kinds/train_run.h)
function(tost_install_header header)
  get_property(done GLOBAL PROPERTY TOST_INSTALLED_HEADERS)
  if(header IN_LIST done)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY TOST_INSTALLED_HEADERS ${header})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"tost/")
  foreach(line IN LISTS lines)
    if(line MATCHES "\"(tost/[^\"]+)\"")
      tost_install_header(${CMAKE_MATCH_1})
    endif()
  endforeach()
endfunction()
foreach(header IN LISTS public_headers)
  tost_install_header(${header})
endforeach()
install(EXPORT tostTargets NAMESPACE tost:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tostConfig.cmake.in ${CMAKE_BINARY_DIR}/tostConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tostConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tostConfig.cmake ${CMAKE_BINARY_DIR}/tostConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/TostTorch.cmake ${CMAKE_CURRENT_LIST_DIR}/TostTorchCuda.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindPCRE2.cmake
        DESTINATION ${package_dir})
