include(GoogleTest)

# Tests are compiled with less optimization than the libraries under test: that takes half the time.
set(EVENKEEL_TEST_COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
if(EVENKEEL_SANITIZE STREQUAL "address")
  set(EVENKEEL_TEST_COMPILE_OPTIONS -O0)
endif()
# What tests are compiled with after all else. Where only they are a unity build, rooms keep their warnings.
add_library(evenkeel_test_options INTERFACE)
if(EVENKEEL_UNITY_TESTS)
  target_compile_options(evenkeel_test_options INTERFACE -Wno-shadow
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()

set(EVENKEEL_SERIAL_TIMEOUT 120)
if(EVENKEEL_SANITIZE)
  set(EVENKEEL_SERIAL_TIMEOUT 600)  # every access is looked at
endif()

# evenkeel_add_test(NAME SOURCES ... [LINKS ...] [PROCESSORS n])
#
# One serial test program; every gtest case becomes a CTest named NAME.Suite.Case. PROCESSORS is for tests that launch
# several ranks themselves.
function(evenkeel_add_test name)
  cmake_parse_arguments(TEST "" "PROCESSORS" "SOURCES;LINKS" ${ARGN})
  if(NOT TEST_PROCESSORS)
    set(TEST_PROCESSORS 1)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  if(EVENKEEL_UNITY_TESTS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
  endif()
  target_link_libraries(${name} PRIVATE evenkeel_compile_options ${TEST_LINKS} GTest::gmock GTest::gtest_main
                                        rapidcheck evenkeel_test_options)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE ${EVENKEEL_TEST_COMPILE_OPTIONS})
  # Listing the tests starts the program, which takes seconds with sanitizers and libtorch on a busy machine.
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${EVENKEEL_SERIAL_TIMEOUT} LABELS serial PROCESSORS ${TEST_PROCESSORS})
endfunction()

# evenkeel_add_mpi_test(NAME RANKS 1 2 ... SOURCES ... [LINKS ...] [THREADS])
#
# One program whose tests run on every rank, registered as NAME.r<N> for each rank count. All MPI tests come through
# here: each has a timeout, tells CTest how many processors it takes, and launches the same way. With THREADS each also
# runs as NAME.threads.r<N>, where all threads may call MPI.
set(EVENKEEL_MPIRUN ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1
                    --mca btl_base_warn_component_unused 0)
# Ranks that wait let others go first: beside what computes, seconds become minutes.
set(EVENKEEL_MPI_TIMEOUT 600)
set(EVENKEEL_MPI_ENVIRONMENT)
if(EVENKEEL_SANITIZE STREQUAL "address")
  # Open MPI keeps memory until the process ends, which the leak sanitizer would report as ours.
  set(EVENKEEL_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
elseif(EVENKEEL_SANITIZE STREQUAL "thread")
  set(EVENKEEL_MPI_ENVIRONMENT TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/thread-sanitizer.supp)
endif()

function(evenkeel_add_mpi_test name)
  cmake_parse_arguments(TEST "THREADS" "" "RANKS;SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
  if(EVENKEEL_UNITY_TESTS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
  endif()
  target_link_libraries(${name} PRIVATE evenkeel_compile_options ${TEST_LINKS} GTest::gmock GTest::gtest rapidcheck
                                        Boost::mpi MPI::MPI_CXX evenkeel_test_options)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE ${EVENKEEL_TEST_COMPILE_OPTIONS})
  foreach(ranks ${TEST_RANKS})
    evenkeel_register_mpi_run(${name}.r${ranks} ${ranks} $<TARGET_FILE:${name}>)
    if(TEST_THREADS)
      evenkeel_register_mpi_run(${name}.threads.r${ranks} ${ranks} $<TARGET_FILE:${name}> --threads=multiple)
    endif()
  endforeach()
endfunction()

# evenkeel_register_mpi_run(NAME RANKS COMMAND...): one CTest that launches COMMAND on RANKS ranks.
function(evenkeel_register_mpi_run name ranks)
  add_test(NAME ${name} COMMAND ${EVENKEEL_MPIRUN} -np ${ranks} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${EVENKEEL_MPI_TIMEOUT} PROCESSORS ${ranks} LABELS mpi
                       ENVIRONMENT "${EVENKEEL_MPI_ENVIRONMENT}")
endfunction()

# evenkeel_add_nodes_test(NAME RANKS_PER_NODE 3 3 2 COMMAND ...)
#
# One CTest, NAME.n3-3-2, that launches COMMAND on simulated nodes with so many ranks each. Skipped, with the reason,
# where the machine permits no network namespaces.
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

# evenkeel_set_nodes_properties(NAME PROCESSORS): what every CTest has that launches simulated nodes.
function(evenkeel_set_nodes_properties name processors)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${EVENKEEL_MPI_TIMEOUT} PROCESSORS ${processors} LABELS nodes
                       SKIP_RETURN_CODE 77 ENVIRONMENT "${EVENKEEL_MPI_ENVIRONMENT}")
endfunction()
