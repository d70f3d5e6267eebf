#!/usr/bin/env bash
# launch/simulate-nodes.sh NODES RANKS_PER_NODE [--rate RATE] [--once] -- PROGRAM [ARGUMENT...]
#
# Runs PROGRAM under mpirun on simulated nodes of this machine. Each has a host name (n1, n2, ...), an address and a
# link to a common switch. Ranks of one node share memory; ranks of different nodes use TCP. No traffic leaves the
# machine.
#
#   launch/simulate-nodes.sh 2 4 -- build/release/bin/evenkeel run configs/quickstart.yaml
#   launch/simulate-nodes.sh 3 3,3,2 --rate 1gbit -- build/release/bin/evenkeel run configs/quickstart.yaml
#
# RANKS_PER_NODE is one number, or one per node. RATE limits each node's link in each direction, in units of tc(8).
# PROGRAM gets the numbers of ranks in EVENKEEL_NODES, as in 3,3,2.
#
# With --once, PROGRAM runs once, on the first node and without mpirun. "$EVENKEEL_ON_NODE" n2 COMMAND starts a command
# on another node. launch/simulate-slurm.sh starts the daemons of a cluster in this way.
#
# Exit status: PROGRAM's; 2 if the arguments are wrong; 77 if this machine does not permit network namespaces, with the
# reason, so that tests count as skipped.
#
# Processes, links, names, session folders and shared memory are in namespaces of one call. The kernel removes all of
# them with the call's last process, however it ends, and calls do not see each other.
set -euo pipefail

script="$(realpath "${BASH_SOURCE[0]}")"

fail() {
  echo "simulate-nodes: $1" >&2
  echo "Usage: launch/simulate-nodes.sh NODES RANKS_PER_NODE [--rate RATE] [--once] -- PROGRAM [ARGUMENT...]" >&2
  exit 2
}

skip() {
  echo "simulate-nodes: skipped: this machine does not permit simulated nodes: $1" >&2
  exit 77
}

# Runs a command of the setup. Its output is shown only as the reason for a skip.
must() {
  local said
  said="$("$@" 2>&1)" || skip "'$*' fails: $said"
}

# Runs inside the namespaces, as their first process. $1 is the rate or empty, $2 the ranks of each node, $3 how to
# start the program: once or by mpirun.
subnet=10.77.0
# Agent that replaces ssh for mpirun: it enters a node and starts a command there.
agent=/run/evenkeel/agent
run_inside() {
  local rate="$1" launcher="$3" counts
  IFS=, read -r -a counts <<<"$2"
  shift 3
  # The call has its own /run and /dev/shm, for names of namespaces and of shared memory, and Open MPI's session folders.
  must mount -t tmpfs evenkeel /run
  must mount -t tmpfs evenkeel /dev/shm
  must mkdir -p /run/evenkeel/sessions /run/evenkeel/uts
  must ip link add name switch type bridge
  must ip link set switch up

  local hosts="127.0.0.1 localhost" places="" total=0 i
  for ((i = 1; i <= ${#counts[@]}; ++i)); do
    make_node "$i" "$rate"
    hosts+=$'\n'"$subnet.$i n$i"
    places+="${places:+,}n$i:${counts[i - 1]}"
    ((total += counts[i - 1]))
  done
  echo "$hosts" >/run/evenkeel/hosts
  must mount --bind /run/evenkeel/hosts /etc/hosts
  cat >"$agent" <<'AGENT'
#!/bin/sh
node="$1"
shift
exec nsenter --net="/run/netns/$node" --uts="/run/evenkeel/uts/$node" -- /bin/sh -c "$*"
AGENT
  chmod +x "$agent"

  # Starts the program in the first node, as a user who logged in there would. Each node seems to have all cores, so
  # ranks are not bound.
  export OMPI_MCA_plm_rsh_agent="$agent" OMPI_MCA_orte_tmpdir_base=/run/evenkeel/sessions
  export PRTE_MCA_plm_ssh_agent="$agent" PRTE_MCA_prte_tmpdir_base=/run/evenkeel/sessions # Open MPI 5
  export OMPI_MCA_btl=tcp,vader,self OMPI_MCA_btl_tcp_if_include="$subnet.0/24"
  export OMPI_MCA_oob_tcp_if_include="$subnet.0/24" OMPI_MCA_btl_base_warn_component_unused=0
  local first=(nsenter --net=/run/netns/n1 --uts=/run/evenkeel/uts/n1 --)
  if [[ "$launcher" == once ]]; then
    EVENKEEL_ON_NODE="$agent" "${first[@]}" "$@"
  else
    "${first[@]}" mpirun --host "$places" -np "$total" --map-by slot --bind-to none "$@"
  fi
}

# Makes node $1: a network, a host name, and a link to the switch, limited to rate $2 unless that is empty.
make_node() {
  local node="n$1" port="port$1" rate="$2"
  must ip netns add "$node"
  must ip link add name "$port" type veth peer name eth0 netns "$node"
  must ip link set "$port" master switch up
  must ip -n "$node" link set lo up
  must ip -n "$node" addr add "$subnet.$1/24" dev eth0
  must ip -n "$node" link set eth0 up
  if [[ -n "$rate" ]]; then
    must tc qdisc add dev "$port" root tbf rate "$rate" burst 1mb latency 100ms
    must tc -n "$node" qdisc add dev eth0 root tbf rate "$rate" burst 1mb latency 100ms
  fi
  must touch "/run/evenkeel/uts/$node"
  must unshare --uts="/run/evenkeel/uts/$node" hostname "$node"
}

if [[ "${1:-}" == --inside ]]; then
  run_inside "${@:2}"
  exit
fi

# Outside the namespaces: reads the arguments, opens the namespaces and waits.
nodes="${1:-}" ranks="${2:-}" rate="" launcher=mpirun
[[ "$nodes" =~ ^[1-9][0-9]?$ ]] || fail "NODES is '$nodes'; it must be from 1 to 99"
[[ "$ranks" =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || fail "RANKS_PER_NODE is '$ranks'; it must be like 2 or like 3,3,2"
shift 2
if [[ "${1:-}" == --rate ]]; then
  rate="${2:-}"
  [[ "$rate" =~ ^[1-9][0-9]*[kmg]bit$ ]] || fail "RATE is '$rate'; it must be like 100mbit or 1gbit"
  shift 2
fi
if [[ "${1:-}" == --once ]]; then
  launcher=once
  shift
fi
if (($#)) && [[ "$1" != -- ]]; then
  fail "found '$1' where -- PROGRAM was expected; options must have the order of the usage"
fi
(($# > 1)) || fail "-- PROGRAM is missing"
shift

if [[ "$ranks" != *,* ]]; then
  one="$ranks"
  for ((i = 1; i < nodes; ++i)); do ranks+=",$one"; done
fi
IFS=, read -r -a each <<<"$ranks"
((${#each[@]} == nodes)) || fail "RANKS_PER_NODE '$ranks' has ${#each[@]} numbers, but NODES is $nodes"
[[ "$(uname -s)" == Linux ]] || skip "they are made of Linux's namespaces, and this is $(uname -s)"
PATH+=:/usr/sbin:/sbin # not in PATH of users other than root
for tool in ip tc unshare nsenter setpriv mpirun; do
  command -v "$tool" >/dev/null || skip "$tool is not installed; launch/install-packages.sh --tests installs it"
done

# shellcheck source=launch/environment.sh
source "$(dirname "$script")/environment.sh"
export EVENKEEL_NODES="$ranks"

# Root may open namespaces if the machine permits it; other users may do so only as root of a user namespace.
separate=(--net --mount --uts --ipc --pid --fork --kill-child --mount-proc)
if ((EUID != 0)); then separate+=(--user --map-root-user); fi
said="$(unshare "${separate[@]}" true 2>&1)" || skip "$said"

# Ends everything inside: with the first process of a process namespace, the kernel kills all others.
inside=""
end_all() {
  trap '' INT TERM HUP
  kill -KILL "$inside" 2>/dev/null || true
  wait "$inside" 2>/dev/null || true
  exit "$1"
}
trap 'end_all 129' HUP
trap 'end_all 130' INT
trap 'end_all 143' TERM
setpriv --pdeathsig KILL unshare "${separate[@]}" "$script" --inside "$rate" "$ranks" "$launcher" "$@" </dev/null &
inside=$!
status=0
wait "$inside" || status=$?
exit "$status"
