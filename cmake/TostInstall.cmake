# Install tree: bin/tost, lib/libtost_torch.so, the layers as static libraries, headers, and a package that
# find_package(tost) reads. It remembers the torch it was built with; TOST_TORCH points to another one.
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
  install(TARGETS tost tost_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tost DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*-inl.h" EXCLUDE PATTERN "cli" EXCLUDE)
install(EXPORT tostTargets NAMESPACE tost:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tostConfig.cmake.in ${CMAKE_BINARY_DIR}/tostConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tostConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tostConfig.cmake ${CMAKE_BINARY_DIR}/tostConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/TostTorch.cmake ${CMAKE_CURRENT_LIST_DIR}/TostTorchCuda.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindPCRE2.cmake
        DESTINATION ${package_dir})
