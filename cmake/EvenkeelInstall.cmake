# Installs everything, in parts, each of which is a Debian package (EvenkeelDebs.cmake): `program`, `development`,
# `library` with the shared libraries of the C API, and `development_torch` if the module torch is built.
include(CMakePackageConfigHelpers)
include(EvenkeelPkgConfig)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Evenkeel)

if(EVENKEEL_BUILD_PROGRAM)
  # Libraries from outside the system's folders (such as the user's own MPI or Boost) are found after the installation,
  # too.
  set_target_properties(evenkeel PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS evenkeel RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(DIRECTORY configs docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program PATTERN docs/site EXCLUDE)
  install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
endif()

# Installs the headers of what was built. evenkeel.hpp needs MPI.
set(headers_left_out PATTERN evenkeel/torch EXCLUDE)
if(NOT EVENKEEL_MPI)
  foreach(module ${EVENKEEL_MPI_MODULES} evenkeel.hpp)
    list(APPEND headers_left_out PATTERN evenkeel/${module} EXCLUDE)
  endforeach()
  foreach(header evenkeel_mpi samples service step stream watchdog)
    list(APPEND headers_left_out PATTERN evenkeel/c/${header}.h EXCLUDE)
  endforeach()
endif()
install(DIRECTORY include/evenkeel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development ${headers_left_out})
if(TARGET evenkeel_torch)
  install(DIRECTORY include/evenkeel/torch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/evenkeel
          COMPONENT development_torch)
endif()

# Each component has a file of targets. EvenkeelConfig.cmake checks which of these files exist.
foreach(component IN LISTS EVENKEEL_COMPONENTS)
  list(GET EVENKEEL_${component}_MODULES -1 last_module)
  if(TARGET evenkeel_${last_module})
    evenkeel_package_of(${component} package)
    install(EXPORT EvenkeelTargets-${component} NAMESPACE Evenkeel:: DESTINATION ${package_folder}
            COMPONENT ${package})
  endif()
endforeach()
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/EvenkeelConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/EvenkeelConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/EvenkeelConfigVersion.cmake
              cmake/EvenkeelComponents.cmake cmake/FindHiredis.cmake cmake/FindHttplib.cmake
              cmake/FindLmdb.cmake cmake/FindZstd.cmake
        DESTINATION ${package_folder} COMPONENT development)

evenkeel_add_pkgconfig(evenkeel-plan COMPONENTS plan REQUIRES yaml-cpp FLAGS -pthread
                       DESCRIPTION "plans balanced, packed micro-batches; needs no MPI")
evenkeel_add_pkgconfig(evenkeel-c COMPONENTS c SHARED evenkeel
                       DESCRIPTION "plans balanced, packed micro-batches for C; needs no MPI")
if(EVENKEEL_MPI)
  evenkeel_mpi_for_pkgconfig(CXX mpi_module mpi_flags)
  evenkeel_mpi_for_pkgconfig(C mpi_c_module mpi_c_flags)
  evenkeel_boost_for_pkgconfig(boost_flags)
  evenkeel_add_pkgconfig(evenkeel COMPONENTS io stream buffer service FLAGS ${boost_flags} ${mpi_flags}
                         REQUIRES evenkeel-plan ${mpi_module} fmt simdjson zlib libzstd cpp-httplib lmdb hiredis openssl
                         DESCRIPTION "balances, packs and exchanges samples over MPI")
  evenkeel_add_pkgconfig(evenkeel-c-mpi COMPONENTS c_mpi SHARED evenkeel_mpi FLAGS ${mpi_c_flags}
                         REQUIRES evenkeel-c ${mpi_c_module}
                         DESCRIPTION "balances, packs and exchanges samples over MPI, for C")
endif()
if(TARGET evenkeel_torch)
  evenkeel_torch_for_pkgconfig(torch_flags)
  evenkeel_add_pkgconfig(evenkeel-torch COMPONENTS torch REQUIRES evenkeel-plan FLAGS ${torch_flags}
                         DESCRIPTION "shared prefixes on libtorch")
endif()
