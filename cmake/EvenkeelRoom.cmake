# evenkeel_add_room(NAME SOURCES ... [OPENS ...] [LINKS ...] [PRIVATE_LINKS ...])
#
# Declares the library of one room: sources in src/NAME, alias Evenkeel::NAME. LINKS are the rooms (and libraries) its
# headers need; that list is the dependency rule, since a room cannot link what it does not name. Its headers are of
# three kinds: those of include/evenkeel/NAME are for users and installed; those of src/NAME that OPENS names are for
# the rooms above; all others in src/NAME are its own. tests/rooms/check_links.py compares includes with these lists.
function(evenkeel_add_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;OPENS;LINKS;PRIVATE_LINKS" ${ARGN})
  set(target evenkeel_${name})
  if(ROOM_SOURCES)
    add_library(${target} STATIC ${ROOM_SOURCES})
    set(scope PUBLIC)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:evenkeel_compile_options> ${ROOM_PRIVATE_LINKS})
    # Rooms go into shared libraries: the C API, the Python package, others' own. Nothing replaces a function of ours in
    # there, so that they may be inlined as in a program.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(Evenkeel::${name} ALIAS ${target})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} ${scope} ${ROOM_LINKS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  if(EVENKEEL_INSTALL)
    install(TARGETS ${target} EXPORT EvenkeelTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()
