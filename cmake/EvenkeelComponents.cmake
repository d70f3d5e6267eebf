# The components of the package, lowest first. The build reads this file, and it is installed for EvenkeelConfig.cmake.
#
#   evenkeel_component(NAME ROOMS room... [NEEDS component...] [PACKAGES package...] [BUILT_BY option])
#
# ROOMS are its libraries, lowest first: Evenkeel::NAME is the last of them, with all that it needs. PACKAGES are
# searched for when a project asks for the component. BUILT_BY is the option that the error names if the component is
# missing. plan, service, torch, c and c_mpi are for users; the rooms of io, stream, buffer, page and job have no public
# headers.
set(EVENKEEL_COMPONENTS)
macro(evenkeel_component name)
  cmake_parse_arguments(EVENKEEL_${name} "" "BUILT_BY" "ROOMS;NEEDS;PACKAGES" ${ARGN})
  list(APPEND EVENKEEL_COMPONENTS ${name})
  foreach(room IN LISTS EVENKEEL_${name}_ROOMS)
    set(EVENKEEL_COMPONENT_OF_${room} ${name})
  endforeach()
endmacro()

evenkeel_component(plan ROOMS base cost balance batch pack plan config PACKAGES Threads yaml-cpp)
evenkeel_component(io ROOMS io NEEDS plan PACKAGES simdjson nlohmann_json ZLIB Zstd)
evenkeel_component(stream ROOMS stream NEEDS plan PACKAGES nlohmann_json)
evenkeel_component(buffer ROOMS buffer NEEDS plan io stream PACKAGES Hiredis Httplib Lmdb ZLIB fmt nlohmann_json)
evenkeel_component(page ROOMS page NEEDS plan PACKAGES nlohmann_json fmt)
evenkeel_component(service ROOMS mesh watchdog transport exchange service source NEEDS plan io stream buffer
                   PACKAGES MPI Boost fmt
                   BUILT_BY EVENKEEL_MPI)
evenkeel_component(job ROOMS report job NEEDS service page PACKAGES spdlog BUILT_BY EVENKEEL_MPI)
evenkeel_component(torch ROOMS torch NEEDS plan PACKAGES Torch BUILT_BY EVENKEEL_TORCH)
evenkeel_component(c ROOMS c)
evenkeel_component(c_mpi ROOMS c_mpi NEEDS c PACKAGES MPI BUILT_BY EVENKEEL_MPI)

# Arguments of find_package besides the name. A program without C++ finds MPI for C.
get_property(EVENKEEL_LANGUAGES GLOBAL PROPERTY ENABLED_LANGUAGES)
set(EVENKEEL_FIND_MPI COMPONENTS C)
if(CXX IN_LIST EVENKEEL_LANGUAGES)
  set(EVENKEEL_FIND_MPI COMPONENTS CXX)
endif()
set(EVENKEEL_FIND_Boost 1.74 CONFIG COMPONENTS mpi serialization)
