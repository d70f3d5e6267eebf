# evenkeel_add_module(NAME SOURCES ... [OPENS ...] [LINKS ...] [PRIVATE_LINKS ...])
#
# Declares the library of one module: sources in src/NAME, alias Evenkeel::NAME. LINKS are the modules (and libraries) that
# its headers need. This list is the dependency rule, since a module cannot link what it does not name. There are three
# kinds of headers: those in include/evenkeel/NAME are for users and installed; those in src/NAME that OPENS names are
# for the modules above; all others in src/NAME are private. tests/modules/check_links.py compares includes with these
# lists.
#
# A component of the package may have the name of a module and more modules above it (EvenkeelComponents.cmake).
# Evenkeel::NAME is then the component, which users link, and Evenkeel::NAME_alone the module. In LINKS it is the module.
function(evenkeel_add_module name)
  cmake_parse_arguments(MODULE "" "" "SOURCES;OPENS;LINKS;PRIVATE_LINKS" ${ARGN})
  foreach(links MODULE_LINKS MODULE_PRIVATE_LINKS)
    list(TRANSFORM ${links} REPLACE "^Evenkeel::" evenkeel_)
  endforeach()
  set(component ${EVENKEEL_COMPONENT_OF_${name}})
  if(NOT component)
    message(FATAL_ERROR "No component of cmake/EvenkeelComponents.cmake has the module ${name}")
  endif()
  set(exported ${name})
  list(GET EVENKEEL_${component}_MODULES -1 last_module)
  if(name STREQUAL component AND NOT name STREQUAL last_module)
    set(exported ${name}_alone)
    add_library(evenkeel_component_${name} INTERFACE)
    target_link_libraries(evenkeel_component_${name} INTERFACE evenkeel_${last_module})
    evenkeel_export(evenkeel_component_${name} ${name} ${component})
  endif()
  set(target evenkeel_${name})
  if(MODULE_SOURCES)
    add_library(${target} STATIC ${MODULE_SOURCES})
    set(scope PUBLIC)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:evenkeel_compile_options> ${MODULE_PRIVATE_LINKS})
    # Modules are linked into shared libraries: the C API, the Python package and those of others. Our functions are not
    # replaced there, so they may be inlined as in a program.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} ${scope} ${MODULE_LINKS})
  evenkeel_export(${target} ${exported} ${component})
endfunction()

# evenkeel_export(TARGET NAME COMPONENT): gives the target the name Evenkeel::NAME in other projects, whether they add
# this folder or find the installed package.
function(evenkeel_export target name component)
  add_library(Evenkeel::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  if(EVENKEEL_INSTALL)
    evenkeel_package_of(${component} package)
    install(TARGETS ${target} EXPORT EvenkeelTargets-${component}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${package}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT ${package})
  endif()
endfunction()

# evenkeel_package_of(COMPONENT RESULT): sets RESULT to the part with which the component is installed (`cmake --install
# --component`, Debian packages). torch has a part of its own, since it needs libtorch. A shared library itself is in
# the part `library`.
function(evenkeel_package_of component result)
  if(component STREQUAL "torch")
    set(${result} development_torch PARENT_SCOPE)
  else()
    set(${result} development PARENT_SCOPE)
  endif()
endfunction()
