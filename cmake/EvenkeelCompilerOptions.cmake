# Compile options of all targets of this project, as one interface target that is never exported: users do not get our
# warnings.
add_library(evenkeel_compile_options INTERFACE)
target_compile_features(evenkeel_compile_options INTERFACE cxx_std_20)
target_compile_options(evenkeel_compile_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                       -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual)
# Makes the messages of broken contracts name files below the source tree, and keeps its path out of installed files.
target_compile_options(evenkeel_compile_options INTERFACE "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
# GCC 12 warns about overlapping copies inside its own std::string at -O3 (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(evenkeel_compile_options INTERFACE -Wno-restrict)
endif()
# By default, GCC collects its garbage from 128 MB on. From 1 GB on, it takes a tenth less time and a third more memory.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(evenkeel_compile_options INTERFACE --param=ggc-min-heapsize=1048576)  # KB
endif()
if(EVENKEEL_WARNINGS_AS_ERRORS)
  target_compile_options(evenkeel_compile_options INTERFACE -Werror)
endif()

# evenkeel_compile_soon(TARGET): optimizes less in a release, for a target that waits for people and files rather than
# computes. It is compiled in two thirds of the time. The linker may use its copy of an inline function in all targets,
# so an inline function that takes long belongs in a source file.
function(evenkeel_compile_soon target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# evenkeel_compile_apart(TARGET SOURCES...): in a unity build, compiles these sources of the target together, and
# separately from all others.
function(evenkeel_compile_apart target)
  get_target_property(others ${target} SOURCES)
  list(REMOVE_ITEM others ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP apart)
  set_source_files_properties(${others} PROPERTIES UNITY_GROUP others)
endfunction()

# evenkeel_computes(TARGET): for a target that loops over tokens, pairs of samples or rows. With sanitizers, its tests
# run many times faster with -O1, which takes twice as long to compile as the -O0 of all other targets.
function(evenkeel_computes target)
  if(EVENKEEL_SANITIZE STREQUAL "address" AND NOT EVENKEEL_FUZZ)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# Levels of contracts to check (include/evenkeel/base/assertions.hpp). Each level includes those before it.
set(assertion_levels none cheap thorough communication)
if(EVENKEEL_ASSERTIONS STREQUAL "")
  if(EVENKEEL_SANITIZE)
    set(checked_levels 3)
  else()
    set(checked_levels $<IF:$<CONFIG:Debug>,3,1>)
  endif()
elseif(EVENKEEL_ASSERTIONS IN_LIST assertion_levels)
  list(FIND assertion_levels "${EVENKEEL_ASSERTIONS}" checked_levels)
else()
  message(FATAL_ERROR "EVENKEEL_ASSERTIONS is '${EVENKEEL_ASSERTIONS}'; use none, cheap, thorough, communication or nothing")
endif()
target_compile_definitions(evenkeel_compile_options INTERFACE
                           $<$<BOOL:${checked_levels}>:EVENKEEL_ASSERTION_LEVEL=${checked_levels}>)

if(EVENKEEL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "EVENKEEL_FUZZ needs Clang, which has libFuzzer: launch/fuzz.sh calls it")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Sanitizers must reach all objects that are linked together, so they are set directory-wide.
if(EVENKEEL_SANITIZE STREQUAL "address")
  # Halves the compile time: stacks have lines (-g1) but not variables, and null pointers and the ends of objects are
  # left to AddressSanitizer, which detects their use, whereas the other sanitizer checks before each use. Fuzz targets,
  # which run a million times, are optimized.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,object-size -fno-sanitize-recover=all
                      -fno-omit-frame-pointer $<IF:$<BOOL:${EVENKEEL_FUZZ}>,-O2,-O0> -g1)
  add_link_options(-fsanitize=address,undefined)
  # The code that sanitizers add makes GCC 12 warn about std::regex.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(evenkeel_compile_options INTERFACE -Wno-maybe-uninitialized)
  endif()
elseif(EVENKEEL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(EVENKEEL_SANITIZE)
  message(FATAL_ERROR "EVENKEEL_SANITIZE is '${EVENKEEL_SANITIZE}'; use address, thread or nothing")
endif()
