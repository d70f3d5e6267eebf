# evenkeel_add_pkgconfig(NAME COMPONENTS ... DESCRIPTION text [REQUIRES module...] [FLAGS ...])
#
# Installs NAME.pc for the libraries of these components. All of Evenkeel's libraries are static, and there is no other
# kind of them: what they need is linked by whoever links them. So it stands in Requires and Libs, not in
# Requires.private, which only `pkg-config --static` heeds, for everything down to libzip's own cryptography. FLAGS are
# those of libraries that have no .pc file; -l, -L and -pthread follow ours, all others are for the compiler too.
function(evenkeel_add_pkgconfig name)
  cmake_parse_arguments(PARSE_ARGV 1 PC "" "DESCRIPTION" "COMPONENTS;REQUIRES;FLAGS")
  set(rooms)
  foreach(component IN LISTS PC_COMPONENTS)
    list(APPEND rooms ${EVENKEEL_${component}_ROOMS})
  endforeach()
  list(REVERSE rooms)  # a static library stands before those that it uses
  list(TRANSFORM rooms PREPEND -levenkeel_)
  set(libraries ${PC_FLAGS})
  list(FILTER libraries INCLUDE REGEX "^-[lL]|^-pthread|^/")
  string(JOIN " " PC_LIBS ${rooms} ${libraries})
  set(flags ${PC_FLAGS})
  list(FILTER flags EXCLUDE REGEX "^-[lL]|^/")
  string(JOIN " " PC_CFLAGS ${flags})
  list(TRANSFORM PC_REQUIRES REPLACE "^(evenkeel.*)$" "\\1 = ${PROJECT_VERSION}")
  string(JOIN ", " PC_REQUIRES ${PC_REQUIRES})
  file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
  set(file ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/evenkeel.pc.in ${file} @ONLY)
  list(GET PC_COMPONENTS -1 component)
  evenkeel_package_of(${component} package)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${package})
endfunction()

# MPI's .pc file has another name with every MPI. Sets MODULE to the one of the MPI that this build uses; where none is
# found, FLAGS to what links it.
function(evenkeel_mpi_for_pkgconfig module flags)
  set(${module} "" PARENT_SCOPE)
  set(${flags} "" PARENT_SCOPE)
  if(NOT MPI_CXX_INCLUDE_DIRS)
    return()  # the compiler is MPI's own
  endif()
  list(GET MPI_CXX_INCLUDE_DIRS 0 used)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    foreach(candidate ompi-cxx mpich mvapich2 mpi-cxx)
      pkg_check_modules(evenkeel_mpi_module QUIET ${candidate})
      if(used IN_LIST evenkeel_mpi_module_INCLUDE_DIRS)
        set(${module} ${candidate} PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endif()
  list(TRANSFORM MPI_CXX_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE folders)
  set(${flags} ${folders} ${MPI_CXX_LIBRARIES} PARENT_SCOPE)
endfunction()

# Boost has no .pc file: where the one that this build uses is, and its libraries.
function(evenkeel_boost_for_pkgconfig flags)
  set(headers ${Boost_INCLUDE_DIRS})
  set(libraries ${Boost_LIBRARY_DIRS})
  list(REMOVE_ITEM headers ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
  list(REMOVE_ITEM libraries ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
  list(TRANSFORM headers PREPEND -I)
  list(TRANSFORM libraries PREPEND -L)
  set(${flags} ${headers} ${libraries} -lboost_mpi -lboost_serialization PARENT_SCOPE)
endfunction()

# libtorch has no .pc file: what the compiler and the linker need for the one that this build uses.
function(evenkeel_torch_for_pkgconfig flags)
  get_target_property(found torch INTERFACE_COMPILE_OPTIONS)  # which ABI of std::string it has
  get_target_property(folders torch INTERFACE_INCLUDE_DIRECTORIES)
  list(REMOVE_ITEM folders ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
  list(TRANSFORM folders PREPEND -I)
  list(FILTER found INCLUDE REGEX "^-")
  foreach(library IN LISTS EVENKEEL_TORCH_LIBRARIES)
    if(IS_ABSOLUTE "${library}")  # libc10; the others lie beside it
      cmake_path(GET library PARENT_PATH folder)
      if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND found -L${folder})
      endif()
    endif()
  endforeach()
  set(${flags} ${folders} ${found} -ltorch -ltorch_cpu -lc10 PARENT_SCOPE)
endfunction()
