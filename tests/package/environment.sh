# shellcheck shell=bash
# Sourced by the scripts of this folder. CTest passes them these variables: CMAKE, GENERATOR, CC and CXX; SOURCE, Evenkeel's
# tree; BUILD, the build folder; WORK, a folder for these tests; BUILD_TYPE; SANITIZE; MPIRUN. Evenkeel is installed in PREFIX,
# after it was moved from another folder.
: "${CMAKE:?}" "${GENERATOR:?}" "${CC:?}" "${CXX:?}" "${SOURCE:?}" "${BUILD:?}" "${WORK:?}" "${BUILD_TYPE?}" "${SANITIZE?}"
PREFIX="$WORK/elsewhere/prefix"
flags=()
case "$SANITIZE" in
  address) flags=(-fsanitize=address,undefined) ;;
  thread) flags=(-fsanitize=thread) ;;
esac

# Runs the program that was built from consumer/COMPONENT.cpp or c_consumer/COMPONENT.c.
run_consumer() { # COMPONENT PROGRAM
  if [[ $1 == service || $1 == c_mpi ]]; then
    IFS=';' read -r -a mpirun <<<"$MPIRUN"
    "${mpirun[@]}" -np 2 "$2"
  else
    "$2"
  fi
}
