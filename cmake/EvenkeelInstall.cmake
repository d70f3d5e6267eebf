include(CMakePackageConfigHelpers)

if(EVENKEEL_BUILD_PROGRAM)
  # What it links from outside the system's folders (an MPI or a Boost of one's own) is found after the installation too.
  set_target_properties(evenkeel PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS evenkeel RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
set(headers_left_out)
if(NOT EVENKEEL_MPI)
  foreach(room ${EVENKEEL_MPI_ROOMS})
    list(APPEND headers_left_out PATTERN evenkeel/${room} EXCLUDE)
  endforeach()
endif()
install(DIRECTORY include/evenkeel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${headers_left_out})
install(EXPORT EvenkeelTargets NAMESPACE Evenkeel:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Evenkeel)
configure_package_config_file(cmake/EvenkeelConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/EvenkeelConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Evenkeel)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/EvenkeelConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/EvenkeelConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/EvenkeelConfigVersion.cmake cmake/FindLibzip.cmake cmake/FindZstd.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Evenkeel)
