# libtorch is optional. EVENKEEL_TORCH determines whether the module `torch` is built. AUTO builds it if libtorch is
# found; a project that includes Evenkeel must ask for it. Sets EVENKEEL_TORCH_FOUND and EVENKEEL_TORCH_LIBRARIES.
set(evenkeel_torch_default OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(evenkeel_torch_default AUTO)
endif()
set(EVENKEEL_TORCH ${evenkeel_torch_default} CACHE STRING "Build Evenkeel::torch: AUTO (when libtorch is found), ON or OFF")
set_property(CACHE EVENKEEL_TORCH PROPERTY STRINGS AUTO ON OFF)

# A function, since libtorch's own search sets many variables and prints many messages.
function(evenkeel_find_torch)
  set(EVENKEEL_TORCH_FOUND FALSE PARENT_SCOPE)
  if(EVENKEEL_TORCH STREQUAL "AUTO")
    if(EVENKEEL_SANITIZE STREQUAL "thread")
      return()  # the thread sanitizer does not know libtorch's own threads
    endif()
    set(required QUIET)
  elseif(EVENKEEL_TORCH)
    set(required REQUIRED)
  else()
    return()
  endif()
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # Debian 13's warns about a static library that it does not need
  find_package(Torch ${required})
  unset(CMAKE_MESSAGE_LOG_LEVEL)
  if(Torch_FOUND)
    set(EVENKEEL_TORCH_FOUND TRUE PARENT_SCOPE)
    set(EVENKEEL_TORCH_LIBRARIES ${TORCH_LIBRARIES} PARENT_SCOPE)
  elseif(EVENKEEL_BUILD_TESTS)
    message(WARNING "libtorch is not installed: the module torch is neither built nor tested. "
                    "launch/install-packages.sh --tests installs it; -DEVENKEEL_TORCH=OFF says that this is meant.")
  endif()
endfunction()

evenkeel_find_torch()
