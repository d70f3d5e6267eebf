# Everything here is a Debian 12 package; launch/install-packages.sh lists them by name.
if(EVENKEEL_MPI)
  find_package(MPI REQUIRED COMPONENTS CXX)
  find_package(Boost 1.74 REQUIRED COMPONENTS mpi serialization)
  find_package(spdlog REQUIRED)
elseif(EVENKEEL_BUILD_TESTS)
  find_package(Boost 1.74 REQUIRED COMPONENTS serialization)
endif()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(Libzip REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)  # Debian 12 ships 0.7, which exports the bare name
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()

if(EVENKEEL_BUILD_PROGRAM)
  find_package(CLI11 REQUIRED)
endif()

# evenkeel_find_for(OPTION PACKAGE...): packages that serve only what OPTION builds, which can be left out.
function(evenkeel_find_for option)
  foreach(package ${ARGN})
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      message(FATAL_ERROR "${package} is not installed. launch/install-packages.sh --tests installs it; -D${option}=OFF "
                          "does without it.")
    endif()
  endforeach()
endfunction()

if(EVENKEEL_BUILD_TESTS)
  evenkeel_find_for(EVENKEEL_BUILD_TESTS GTest rapidcheck)
endif()
if(EVENKEEL_BUILD_BENCHMARKS)
  evenkeel_find_for(EVENKEEL_BUILD_BENCHMARKS benchmark)
endif()
