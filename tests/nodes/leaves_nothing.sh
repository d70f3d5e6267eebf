#!/usr/bin/env bash
# leaves_nothing.sh SIMULATE_NODES: requires that a simulation leaves no processes, links, namespaces and session folders after
# it ends successfully, fails, or is interrupted, terminated or killed. Two simulations run at once without interfering.
set -euo pipefail
simulate=$1
seconds="86400.$$" # distinguishes our sleeping ranks from all other processes

traces() {
  ls /run/netns 2>/dev/null || true
  ls -d /tmp/ompi.n[0-9]* /dev/shm/*.n[0-9]* 2>/dev/null || true
  ip -brief link 2>/dev/null | grep -E '^(switch|port[0-9])' || true
}
sleepers() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -o "sleep $seconds" | wc -l; }
# eventually N: waits until N processes have our sleep in their command.
eventually() {
  for ((i = 0; i < 300; ++i)); do
    if (($(sleepers) == $1)); then return; fi
    sleep 0.1
  done
  echo "there are $(sleepers) processes, expected $1" >&2
  exit 1
}
expect_status() {
  (($1 == $2)) && return
  echo "$3: status $1, expected $2" >&2
  exit 1
}
ranks_and_launchers=8 # four ranks, plus mpirun and its parents, whose commands also contain the sleep

before="$(traces)"
status=0
"$simulate" 2 2 -- sh -c 'exit 7' 2>/dev/null || status=$?
if ((status == 77)); then "$simulate" 2 2 -- true; fi
expect_status "$status" 7 "a job that fails"
"$simulate" 1 1 -- true

for signal in INT:130 TERM:143 HUP:129 KILL:137; do
  # A shell starts its background jobs with SIGINT ignored.
  env --default-signal=INT "$simulate" 2 2 -- sleep "$seconds" &
  call=$!
  eventually "$ranks_and_launchers"
  kill -"${signal%:*}" "$call"
  status=0
  wait "$call" || status=$?
  expect_status "$status" "${signal#*:}" "SIG${signal%:*}"
  eventually 0
done

"$simulate" 2 1 -- sleep 1 &
"$simulate" 2 1 -- sleep 1
wait $!

[[ "$(traces)" == "$before" ]] || { traces; exit 1; }
