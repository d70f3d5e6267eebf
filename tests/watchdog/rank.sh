#!/usr/bin/env bash
# rank.sh FAULT VICTIM WORK_DIR PROGRAM...: executes PROGRAM, a rank of a job that writes WORK_DIR/report. A background
# process causes the victim's fault once steps are running, and another one per rank records that the rank has ended.
fault=$1 victim=$2 work=$3
shift 3
rank=$OMPI_COMM_WORLD_RANK

suffer() {
  until (($(wc -l <"$work/report/metrics.jsonl" || echo 0) >= 3)); do sleep 0.05; done
  sleep 1
  date +%s >"$work/suffered"
  case $fault in
    stop) kill -STOP $$ ;;
    cut) ip link set eth0 down ;;
    slow) for _ in {1..16}; do kill -STOP $$ || break; sleep 0.4; kill -CONT $$; sleep 0.1; done
      kill -TERM $$ && touch "$work/was-slow" ;;
  esac
}
# Runs in its own session, since a launcher ends all processes that a rank has started.
see_end="while kill -0 $$; do sleep 0.1; done; date +%s >'$work/ended.$rank'"
{
  if ((rank == victim)); then suffer & fi
  setsid bash -c "$see_end" &
} </dev/null >/dev/null 2>&1
exec "$@"
