include(GoogleTest)

# evenkeel_add_test(NAME SOURCES ... [LINKS ...])
#
# One serial test program; every gtest case becomes a CTest named NAME.Suite.Case.
function(evenkeel_add_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE evenkeel_compile_options ${TEST_LINKS} GTest::gmock GTest::gtest_main
                                        rapidcheck)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  gtest_discover_tests(${name} TEST_PREFIX ${name}. PROPERTIES TIMEOUT 120 LABELS serial)
endfunction()
