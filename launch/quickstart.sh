#!/usr/bin/env bash
# Installs missing packages, builds, and runs the main job on 8 ranks of this machine. Passes its arguments to `evenkeel
# run`: launch/quickstart.sh --set micro_batch.max_tokens=16384 --report report
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/environment.sh
source "$root/launch/environment.sh"

"$root/launch/install-packages.sh"
"$root/launch/build.sh" release evenkeel

# Ranks cannot detect whether the user has a terminal, since mpirun is in between, but this script can.
progress=lines
if [[ -t 2 ]]; then progress=bar; fi

exec mpirun -n 8 "$root/build/release/bin/evenkeel" run "$root/configs/quickstart.yaml" --progress "$progress" "$@" \
  </dev/null
