#!/usr/bin/env bash
# Tests that the installed program works without the source tree.
set -euo pipefail
# shellcheck source=tests/package/environment.sh
source "$(dirname "$0")/environment.sh"

cd /
"$PREFIX/bin/evenkeel" --version
"$PREFIX/bin/evenkeel" synth --samples 16 --out "$WORK/elsewhere/rollouts.jsonl"
"$PREFIX/bin/evenkeel" plan --lengths "$WORK/elsewhere/rollouts.jsonl" --set mesh.dp=2 --set micro_batch.max_tokens=65536
