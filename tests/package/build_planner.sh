#!/usr/bin/env bash
# build_planner.sh CMAKE EVENKEEL_SOURCE PARENT_SOURCE WORK_DIR GENERATOR: builds and runs the planner's consumer inside a
# project that adds Evenkeel's folder, as on a machine without MPI. This compiles everything that a plan needs.
set -euo pipefail
cmake=$1 evenkeel=$2 parent=$3 work=$4 generator=$5

rm -rf "$work"
"$cmake" -G "$generator" -S "$parent" -B "$work" -DEVENKEEL_SOURCE="$evenkeel" -DEVENKEEL_MPI=OFF \
  -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON
"$cmake" --build "$work" --target uses_plan --parallel 2
"$work/uses_plan"
