# The components of the package, lowest first. The build reads this file, and it is installed for EvenkeelConfig.cmake.
#
#   evenkeel_component(NAME MODULES module... [NEEDS component...] [PACKAGES package...] [BUILT_BY option])
#
# MODULES are its libraries, lowest first: Evenkeel::NAME is the last of them, with all that it needs. PACKAGES are
# searched for when a project asks for the component. BUILT_BY is the option that the error names if the component is
# missing. plan, service, torch, c and c_mpi are for users; the modules of io, stream, buffer, page and job have no public
# headers.
set(EVENKEEL_COMPONENTS)
macro(evenkeel_component name)
  cmake_parse_arguments(EVENKEEL_${name} "" "BUILT_BY" "MODULES;NEEDS;PACKAGES" ${ARGN})
  list(APPEND EVENKEEL_COMPONENTS ${name})
  foreach(module IN LISTS EVENKEEL_${name}_MODULES)
    set(EVENKEEL_COMPONENT_OF_${module} ${name})
  endforeach()
endmacro()

evenkeel_component(plan MODULES base cost balance batch pack plan config PACKAGES Threads yaml-cpp)
evenkeel_component(io MODULES io NEEDS plan PACKAGES simdjson nlohmann_json ZLIB Zstd)
evenkeel_component(stream MODULES stream NEEDS plan PACKAGES nlohmann_json)
evenkeel_component(buffer MODULES buffer NEEDS plan io stream PACKAGES Hiredis Httplib Lmdb ZLIB fmt nlohmann_json)
evenkeel_component(page MODULES page NEEDS plan PACKAGES nlohmann_json fmt)
evenkeel_component(service MODULES mesh watchdog transport exchange service source NEEDS plan io stream buffer
                   PACKAGES MPI Boost fmt
                   BUILT_BY EVENKEEL_MPI)
evenkeel_component(job MODULES report job NEEDS service page PACKAGES spdlog BUILT_BY EVENKEEL_MPI)
evenkeel_component(torch MODULES torch NEEDS plan PACKAGES Torch BUILT_BY EVENKEEL_TORCH)
evenkeel_component(c MODULES c)
evenkeel_component(c_mpi MODULES c_mpi NEEDS c PACKAGES MPI BUILT_BY EVENKEEL_MPI)

# Arguments of find_package besides the name. A program without C++ finds MPI for C.
get_property(EVENKEEL_LANGUAGES GLOBAL PROPERTY ENABLED_LANGUAGES)
set(EVENKEEL_FIND_MPI COMPONENTS C)
if(CXX IN_LIST EVENKEEL_LANGUAGES)
  set(EVENKEEL_FIND_MPI COMPONENTS CXX)
endif()
set(EVENKEEL_FIND_Boost 1.74 CONFIG COMPONENTS mpi serialization)
