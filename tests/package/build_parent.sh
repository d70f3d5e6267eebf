#!/usr/bin/env bash
# build_parent.sh CMAKE EVENKEEL_SOURCE PARENT_SOURCE WORK_DIR BUILD_TYPE GENERATOR: configures a project that adds Evenkeel's
# folder, and checks its own settings. Without a build type, also builds and runs a consumer of two small libraries. Then
# requests the optional parts, and checks that they exist.
set -euo pipefail
cmake=$1 evenkeel=$2 source=$3 work=$4 type=$5 generator=$6

rm -rf "$work"
configure=("$cmake" -G "$generator" -S "$source" -B "$work" -DEVENKEEL_SOURCE="$evenkeel")
"${configure[@]}" -DCMAKE_BUILD_TYPE="$type" -DEXPECTED_TYPE="$type"
if [[ -z "$type" ]]; then
  "$cmake" --build "$work" --target uses_batch
  "$work/uses_batch"
fi
[[ ! -e "$work/bin" && ! -e "$work/compile_commands.json" ]]

"${configure[@]}" -DEXPECTED_PARTS=ON -DEVENKEEL_BUILD_PROGRAM=ON -DEVENKEEL_BUILD_EXAMPLES=ON -DEVENKEEL_INSTALL=ON
