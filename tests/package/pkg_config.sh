#!/usr/bin/env bash
# pkg_config.sh COMPONENT MODULE: builds the consumer with the flags that pkg-config prints for MODULE, and runs it.
set -euo pipefail
# shellcheck source=tests/package/environment.sh
source "$(dirname "$0")/environment.sh"
component=$1 module=$2

folder="$(dirname "$(find "$PREFIX" -name "$module.pc")")"
export PKG_CONFIG_PATH="$folder${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
pkg-config --validate "$module"
read -r -a words <<<"$(pkg-config --cflags --libs "$module")"
echo "${words[*]}"
if [[ $component == plan && "$(pkg-config --libs-only-l "$module")" =~ mpi|spdlog|torch ]]; then
  echo "The planner needs none of that" >&2
  exit 1
fi
program="$WORK/pkg_config_$component"
if [[ $component == c || $component == c_mpi ]]; then
  "$CC" -std=c11 "${flags[@]}" "$SOURCE/tests/package/c_consumer/$component.c" "${words[@]}" -o "$program"
  LD_LIBRARY_PATH="$(pkg-config --variable=libdir "$module")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export LD_LIBRARY_PATH
else
  "$CXX" -std=c++20 "${flags[@]}" "$SOURCE/tests/package/consumer/$component.cpp" "${words[@]}" -o "$program"
fi
run_consumer "$component" "$program"
