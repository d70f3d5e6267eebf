#!/usr/bin/env bash
# wrong_arguments.sh SIMULATE_NODES: requires that wrong arguments give status 2 and an explanation.
set -euo pipefail
simulate=$1

refuses() {
  local expected="$1" output status=0
  shift
  output="$("$simulate" "$@" 2>&1)" || status=$?
  if ((status == 2)) && [[ "$output" == *"$expected"*Usage:* ]]; then return; fi
  echo "simulate-nodes $*: status $status, said: $output" >&2
  exit 1
}

refuses "NODES is ''"
refuses "NODES is 'two'" two 2 -- true
refuses "NODES is '0'" 0 2 -- true
refuses "RANKS_PER_NODE is '2,'" 2 2, -- true
refuses "has 2 numbers, but NODES is 3" 3 3,2 -- true
refuses "RATE is 'fast'" 2 2 --rate fast -- true
refuses "found 'true' where -- PROGRAM was expected" 2 2 true
refuses "-- PROGRAM is missing" 2 2 --
refuses "-- PROGRAM is missing" 2 2 --once
