#!/usr/bin/env bash
# configure_without_mpi.sh CMAKE EVENKEEL_SOURCE PARENT_SOURCE WORK_DIR GENERATOR: configures Evenkeel with EVENKEEL_MPI=OFF as
# on a machine without MPI and Boost, by itself and inside another project, and builds and runs a consumer of a small library.
set -euo pipefail
cmake=$1 evenkeel=$2 parent=$3 work=$4 generator=$5

rm -rf "$work"
without=(-DEVENKEEL_MPI=OFF)
for package in MPI Boost spdlog; do
  without+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON")
done
"$cmake" -G "$generator" -S "$evenkeel" -B "$work/alone" "${without[@]}" -DEVENKEEL_BUILD_TESTS=OFF
"$cmake" -G "$generator" -S "$parent" -B "$work/inside" "${without[@]}" -DEVENKEEL_SOURCE="$evenkeel"
"$cmake" --build "$work/inside" --target uses_batch
"$work/inside/uses_batch"
