#!/usr/bin/env bash
# launch/test-wheel.sh [FOLDER [RELEASE...]]: installs a wheel of FOLDER (build/wheel/wheels, which launch/build-wheel.sh
# fills) in a bare Debian of each RELEASE (bookworm and trixie) with Python, NumPy and PyTorch alone, and trains there over
# torch.distributed; then it installs mpi4py, and trains over MPI from the same wheel, which must print the same.
#
# Exit status: 77 where no bare Debian can be made, with the reason, so that tests count as skipped.
set -euo pipefail

root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")"

# What is tried, inside the bare Debian, as its root. Everything needed lies in /try.
install() {
  env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@" >/dev/null
}
# The trainer on two processes. With "alone", as if MPI's library were not there: a package of PyTorch may bring it.
train_over_torch() {
  python3 - "${1:-}" <<'PROGRAM'
import sys

sys.path.insert(0, "/try/service")
import jobs

hide = "sys.modules['evenkeel._service'] = None; " if sys.argv[1] == "alone" else ""
program = f"import runpy, sys; {hide}sys.argv[1:] = ['/try/job.yaml']; runpy.run_path('/try/python_trainer.py')"
for process in jobs.processes([sys.executable, "-c", program], 2, over="torch", timeout=300):
    print(process.stdout, end="")
PROGRAM
}
try_inside() {
  # shellcheck source=launch/environment.sh
  source /try/launch/environment.sh
  export PYTHONPATH=/try/site
  install python3 python3-numpy python3-torch python3-pip
  local tag
  tag="$(python3 -c 'import sys; print("cp%d%d" % sys.version_info[:2])')"
  python3 -m pip install --quiet --no-index --no-deps --root-user-action=ignore --target /try/site /try/evenkeel-*-"$tag"-*.whl
  python3 - <<'PROGRAM'
import evenkeel
from evenkeel.drop_in.verl import get_seqlen_balanced_partitions

plan = evenkeel.plan([5, 3, 4, 2], mesh={"dp": 2}, micro_batch={"max_tokens": 8})
assert [rank.samples.tolist() for rank in plan.ranks] == [[1, 2], [0, 3]], plan
assert sorted(sum(get_seqlen_balanced_partitions([5, 3, 4, 2], 2, equal_size=True), [])) == [0, 1, 2, 3]
PROGRAM
  echo '{source: {kind: synthetic, samples: 64}, batch: {global_batch: 16}}' >/try/job.yaml
  train_over_torch alone | sort >/try/out/alone
  train_over_torch | sort >/try/out/torch
  install python3-mpi4py openmpi-bin
  mpirun -n 2 python3 /try/python_trainer.py /try/job.yaml | sort >/try/out/mpi
  grep -c 'rank 1: step 3, .* loss ' /try/out/alone
  diff /try/out/alone /try/out/torch
  diff /try/out/alone /try/out/mpi
}

if [[ "${1:-}" == --inside ]]; then
  try_inside
  exit
fi

folder="${1:-$root/build/wheel/wheels}"
releases=("${@:2}")
if ((${#releases[@]} == 0)); then releases=(bookworm trixie); fi
if ! compgen -G "$folder/evenkeel-*.whl" >/dev/null; then
  echo "test-wheel: there are no wheels in $folder: launch/build-wheel.sh builds them" >&2
  exit 1
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp -r "$folder"/*.whl "$root/launch" "$root/python/tests/service" "$root/examples/python_trainer.py" "$work"
for release in "${releases[@]}"; do
  "$root/launch/bare-debian.sh" "$release" "$work" /try/launch/test-wheel.sh --inside
  echo "The wheel works on a bare Debian ($release), over torch.distributed and over MPI."
done
