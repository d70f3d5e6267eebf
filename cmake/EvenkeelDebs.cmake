# `cpack -G DEB` makes Debian packages of the files that EvenkeelInstall.cmake installs: evenkeel has the program, its
# pages and configurations; libevenkeel-dev has libraries, headers, the CMake package and .pc files; libevenkeel0 has
# the shared libraries of the C API; libevenkeel-torch-dev has the module torch, if it is built. launch/build-debs.sh
# builds them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME evenkeel)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Evenkeel maintainers <maintainers@evenkeel.example>" CACHE STRING
    "Who is named in packages of Debian")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # from SOURCE_DATE_EPOCH, if that is set
configure_file(cmake/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog @ONLY)
execute_process(COMMAND gzip -9nf ${PROJECT_BINARY_DIR}/debian/changelog)

# Debian packages that have the PACKAGES of a component.
set(debian_of_yaml-cpp libyaml-cpp-dev)
set(debian_of_simdjson libsimdjson-dev)
set(debian_of_nlohmann_json nlohmann-json3-dev)
set(debian_of_ZLIB zlib1g-dev)
set(debian_of_Zstd libzstd-dev)
set(debian_of_Hiredis libhiredis-dev)
set(debian_of_Lmdb liblmdb-dev)
set(debian_of_Httplib libcpp-httplib-dev libssl-dev)
set(debian_of_fmt libfmt-dev)
set(debian_of_spdlog libspdlog-dev)
set(debian_of_MPI libopenmpi-dev)
set(debian_of_Boost libboost-mpi-dev libboost-serialization-dev)
set(debian_of_Torch libtorch-dev)

# evenkeel_add_deb(PART NAME SECTION section HAS text [DEPENDS package...]): makes the package NAME of the files that
# are installed as PART. It depends on the Debian packages that its components need. HAS describes its contents, in
# lines of Debian's width.
function(evenkeel_add_deb part name)
  cmake_parse_arguments(PARSE_ARGV 2 DEB "" "SECTION;HAS" "DEPENDS")
  foreach(component IN LISTS EVENKEEL_COMPONENTS)
    list(GET EVENKEEL_${component}_MODULES -1 last_module)
    evenkeel_package_of(${component} owner)
    if(owner STREQUAL part AND TARGET evenkeel_${last_module})
      foreach(package IN LISTS EVENKEEL_${component}_PACKAGES)
        list(APPEND DEB_DEPENDS ${debian_of_${package}})
      endforeach()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES DEB_DEPENDS)
  string(JOIN ", " DEB_DEPENDS ${DEB_DEPENDS})
  string(TOUPPER ${part} PART)
  set(CPACK_DEBIAN_${PART}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${PART}_PACKAGE_SECTION ${DEB_SECTION} PARENT_SCOPE)
  set(CPACK_DEBIAN_${PART}_PACKAGE_DEPENDS "${DEB_DEPENDS}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${PART}_DESCRIPTION "${about}\n\n${DEB_HAS}" PARENT_SCOPE)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${part} PARENT_SCOPE)
  # Only in packages: `cmake --install` without a component omits these files.
  install(FILES cmake/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog.gz
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${name} COMPONENT ${part} EXCLUDE_FROM_ALL)
endfunction()

set(about "Evenkeel gives each data-parallel rank of an LLM training job an equal
share of the work, in micro-batches that never break the memory cap, as
packed tensors cut for context parallelism.")
set(CPACK_COMPONENTS_ALL)
if(EVENKEEL_BUILD_PROGRAM)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
  if(EVENKEEL_MPI)
    set(launcher openmpi-bin)  # a rank that is started alone needs it, too
  endif()
  evenkeel_add_deb(program evenkeel SECTION science DEPENDS ${launcher}
                   HAS "This package has the program, which plans and runs jobs.")
endif()
set(shared)
if(TARGET evenkeel_c)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src/c)  # libevenkeel_mpi needs libevenkeel
  set(library libevenkeel${PROJECT_VERSION_MAJOR})
  set(shared "${library} (= ${PROJECT_VERSION})")
  evenkeel_add_deb(library ${library} SECTION libs HAS "This package has the shared libraries of the C API.")
endif()
evenkeel_add_deb(development libevenkeel-dev SECTION libdevel DEPENDS ${shared}
                 HAS "This package has headers and static libraries, for CMake and pkg-config.")
if(TARGET evenkeel_torch)
  evenkeel_add_deb(development_torch libevenkeel-torch-dev SECTION libdevel
                   DEPENDS "libevenkeel-dev (= ${PROJECT_VERSION})"
                   HAS "This package has the headers and the library for those who use libtorch.")
endif()
include(CPack)
