# How tests are built and named.
#
# A test program is one CTest, so that `ctest -R plan_test` runs the program as a developer would; `--gtest_filter`
# selects its cases. Each CTest has one label for when it runs, in addition to labels for its kind:
#
#   quick    launch/test.sh, in minutes: every test program, MPI suites on two and four ranks
#   full     launch/test.sh --all: other numbers of ranks and of threads, simulated nodes, packages, pages, whole jobs
#   nightly  ctest -C nightly -L nightly: tests that take hours, or download. Other configurations do not have them
#
# The target quick_tests builds what the `quick` tests need.
add_custom_target(quick_tests)

# Tests are compiled with less optimization than the libraries under test, which takes half the time.
set(EVENKEEL_TEST_COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)

# Code under sanitizers, which check each access, takes several times as long.
set(EVENKEEL_SERIAL_TIMEOUT 300)
set(EVENKEEL_MPI_TIMEOUT 600)
if(EVENKEEL_SANITIZE)
  set(EVENKEEL_SERIAL_TIMEOUT 900)
  set(EVENKEEL_MPI_TIMEOUT 900)
endif()

# evenkeel_add_test_program(NAME SOURCES ... LINKS ...): adds a GoogleTest program, compiled as a unity build if the
# preset asks for one. The headers of the test libraries are parsed once for all programs that link the same ones.
function(evenkeel_add_test_program name)
  cmake_parse_arguments(TEST "MPI" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE evenkeel_compile_options ${TEST_LINKS} GTest::gmock GTest::gtest rapidcheck)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE ${EVENKEEL_TEST_COMPILE_OPTIONS})
  if(TEST_MPI)
    target_link_libraries(${name} PRIVATE Boost::mpi MPI::MPI_CXX)
  endif()
  if("Evenkeel::torch" IN_LIST TEST_LINKS)
    # Its flags are those of libtorch, which other programs do not have.
  elseif(TEST_MPI)
    evenkeel_share_test_headers(${name} mpi <boost/mpi/collectives.hpp> <boost/mpi/communicator.hpp>)
  else()
    evenkeel_share_test_headers(${name} serial)
  endif()
  if(EVENKEEL_UNITY_TESTS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()

# Shares precompiled headers. The first program of each KIND compiles them, and the others reuse them.
function(evenkeel_share_test_headers name kind)
  if(NOT EVENKEEL_PRECOMPILED_HEADERS)
    return()
  endif()
  get_property(first GLOBAL PROPERTY EVENKEEL_PRECOMPILED_FOR_${kind})
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  else()
    target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <rapidcheck.h> <algorithm> <filesystem>
                              <functional> <map> <optional> <ranges> <span> <string> <vector> ${ARGN})
    set_property(GLOBAL PROPERTY EVENKEEL_PRECOMPILED_FOR_${kind} ${name})
  endif()
endfunction()

# evenkeel_add_test(NAME SOURCES ... [LINKS ...] [SHARDS n] [PROCESSORS n])
#
# Adds one serial test program. With SHARDS its cases are distributed over this many CTests, NAME.1 and so on, which run
# in parallel. PROCESSORS is for tests that launch several ranks themselves.
function(evenkeel_add_test name)
  cmake_parse_arguments(TEST "" "PROCESSORS;SHARDS" "SOURCES;LINKS" ${ARGN})
  if(NOT TEST_PROCESSORS)
    set(TEST_PROCESSORS 1)
  endif()
  evenkeel_add_test_program(${name} SOURCES ${TEST_SOURCES} LINKS ${TEST_LINKS} GTest::gtest_main)
  add_dependencies(quick_tests ${name})
  if(NOT TEST_SHARDS)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${EVENKEEL_SERIAL_TIMEOUT} LABELS "serial;quick"
                                            PROCESSORS ${TEST_PROCESSORS})
    return()
  endif()
  foreach(shard RANGE 1 ${TEST_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}.${shard} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(
      ${name}.${shard} PROPERTIES TIMEOUT ${EVENKEEL_SERIAL_TIMEOUT} LABELS "serial;quick" PROCESSORS ${TEST_PROCESSORS}
                                  ENVIRONMENT "GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# evenkeel_add_mpi_test(NAME RANKS 1 2 ... SOURCES ... [LINKS ...] [THREADS])
#
# Adds one program whose tests run on every rank, registered as NAME.r<N> for each number of ranks. All MPI tests use
# this function, so that each has a timeout, declares its number of processors to CTest, and launches in the same way.
# With THREADS, each also runs as NAME.threads.r<N>, in which all threads may call MPI.
#
# Ranks on one machine do not need the networks that Open MPI searches for by default, which takes half the time of a
# small job. If a rank fails, mpirun ends the others at once instead of after one or two seconds: many tests are of jobs
# that fail.
set(EVENKEEL_MPIRUN ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 --mca pml ob1
                    --mca btl_base_warn_component_unused 0 --mca btl_tcp_disable_family 6
                    --mca odls_base_sigkill_timeout 0)
set(EVENKEEL_MPI_ENVIRONMENT)
if(EVENKEEL_SANITIZE STREQUAL "address")
  # Open MPI keeps memory until the process ends, which the leak sanitizer would report as ours.
  set(EVENKEEL_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
elseif(EVENKEEL_SANITIZE STREQUAL "thread")
  set(EVENKEEL_MPI_ENVIRONMENT TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/thread-sanitizer.supp)
endif()

function(evenkeel_add_mpi_test name)
  cmake_parse_arguments(TEST "THREADS" "" "RANKS;SOURCES;LINKS" ${ARGN})
  evenkeel_add_test_program(${name} MPI SOURCES ${TEST_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp
                            LINKS ${TEST_LINKS})
  add_dependencies(quick_tests ${name})
  foreach(ranks ${TEST_RANKS})
    set(when full)
    if(ranks EQUAL 2 OR ranks EQUAL 4)
      set(when quick)
    endif()
    evenkeel_register_mpi_run(${name}.r${ranks} ${when} ${ranks} $<TARGET_FILE:${name}> --gtest_brief=1)
    if(TEST_THREADS)
      evenkeel_register_mpi_run(${name}.threads.r${ranks} full ${ranks} $<TARGET_FILE:${name}> --gtest_brief=1
                                --threads=multiple)
    endif()
  endforeach()
endfunction()

# evenkeel_register_mpi_run(NAME WHEN RANKS COMMAND...): registers one CTest (quick, full or nightly) that launches
# COMMAND on RANKS ranks.
function(evenkeel_register_mpi_run name when ranks)
  set(configurations)
  if(when STREQUAL nightly)
    set(configurations CONFIGURATIONS nightly)
  endif()
  add_test(NAME ${name} ${configurations} COMMAND ${EVENKEEL_MPIRUN} -np ${ranks} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${EVENKEEL_MPI_TIMEOUT} PROCESSORS ${ranks} LABELS "mpi;${when}"
                       ENVIRONMENT "${EVENKEEL_MPI_ENVIRONMENT}")
endfunction()

# evenkeel_add_nodes_test(NAME RANKS_PER_NODE 3 3 2 COMMAND ...)
#
# Adds one CTest, NAME.n3-3-2, that launches COMMAND on simulated nodes with these numbers of ranks. It is skipped, with
# the reason, if the machine does not permit network namespaces.
set(EVENKEEL_SIMULATE_NODES ${PROJECT_SOURCE_DIR}/launch/simulate-nodes.sh)

function(evenkeel_add_nodes_test name)
  cmake_parse_arguments(TEST "" "" "RANKS_PER_NODE;COMMAND" ${ARGN})
  list(LENGTH TEST_RANKS_PER_NODE nodes)
  list(JOIN TEST_RANKS_PER_NODE "," ranks)
  list(JOIN TEST_RANKS_PER_NODE "-" suffix)
  list(JOIN TEST_RANKS_PER_NODE "+" sum)
  math(EXPR processors "${sum}")
  add_test(NAME ${name}.n${suffix} COMMAND ${EVENKEEL_SIMULATE_NODES} ${nodes} ${ranks} -- ${TEST_COMMAND})
  evenkeel_set_nodes_properties(${name}.n${suffix} ${processors})
endfunction()

# evenkeel_set_nodes_properties(NAME PROCESSORS): sets the properties of a CTest that launches simulated nodes.
function(evenkeel_set_nodes_properties name processors)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${EVENKEEL_MPI_TIMEOUT} PROCESSORS ${processors} LABELS "nodes;full"
                       SKIP_RETURN_CODE 77 ENVIRONMENT "${EVENKEEL_MPI_ENVIRONMENT}")
endfunction()
