# The Python package of python/. EVENKEEL_BUILD_PYTHON determines whether it is built. AUTO builds it if tests are
# built, except with the thread sanitizer, with which Python itself would have to be compiled. Sets
# EVENKEEL_PYTHON_FOUND, and sets Python3_EXECUTABLE to the interpreter with which it is built and tested.
set(EVENKEEL_BUILD_PYTHON AUTO CACHE STRING "Build the Python package: AUTO (with the tests), ON or OFF")
set_property(CACHE EVENKEEL_BUILD_PYTHON PROPERTY STRINGS AUTO ON OFF)

# Sets the result to the modules that `python` lacks, as text; empty if nothing is missing.
function(evenkeel_missing_from_python python modules result)
  set(question "import importlib.util, sys
print(', '.join(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))")
  execute_process(COMMAND ${python} -c "${question}" ${modules} OUTPUT_VARIABLE missing RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(missing "Python 3 itself")
  endif()
  set(${result} "${missing}" PARENT_SCOPE)
endfunction()

# Chooses the interpreter that was requested. Otherwise, chooses the first one that lacks nothing of PATH's and the
# system's python3: PATH may lead to one of pyenv or conda, without Debian's packages.
function(evenkeel_find_python)
  set(EVENKEEL_PYTHON_FOUND FALSE PARENT_SCOPE)
  if(EVENKEEL_BUILD_PYTHON STREQUAL "AUTO")
    if(NOT EVENKEEL_BUILD_TESTS)
      return()
    elseif(EVENKEEL_SANITIZE STREQUAL "thread")
      message(STATUS "The Python package is not built with the thread sanitizer")
      return()
    endif()
  elseif(NOT EVENKEEL_BUILD_PYTHON)
    return()
  endif()
  set(modules)  # a build needs the interpreter alone
  if(EVENKEEL_BUILD_TESTS)
    list(APPEND modules numpy pytest omegaconf)
  endif()
  if(Python3_EXECUTABLE)
    set(candidates ${Python3_EXECUTABLE})
  else()
    find_program(python_of_path python3 NO_CACHE)
    set(candidates ${python_of_path} /usr/bin/python3)
    list(REMOVE_DUPLICATES candidates)
  endif()
  foreach(candidate ${candidates})
    evenkeel_missing_from_python(${candidate} "${modules}" missing)
    if(missing STREQUAL "")
      set(EVENKEEL_PYTHON_FOUND TRUE PARENT_SCOPE)
      set(Python3_EXECUTABLE ${candidate} PARENT_SCOPE)
      if(EVENKEEL_BUILD_TESTS)
        evenkeel_missing_from_python(${candidate} torch missing)
        if(missing)
          message(WARNING "${candidate} has no torch: the Python package is not tested with tensors. "
                          "launch/install-packages.sh --tests installs it.")
        endif()
      endif()
      return()
    endif()
    string(APPEND reasons "\n  ${candidate} lacks ${missing}")
  endforeach()
  message(FATAL_ERROR "There is no Python to build the package evenkeel with:${reasons}\n"
                      "launch/install-packages.sh --tests installs what is missing; -DEVENKEEL_BUILD_PYTHON=OFF does "
                      "without the package, -DPython3_EXECUTABLE=PATH names another Python.")
endfunction()

evenkeel_find_python()
