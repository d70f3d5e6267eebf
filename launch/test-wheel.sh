#!/usr/bin/env bash
# launch/test-wheel.sh [--in FOLDER] [--debian RELEASE... | --sdist RELEASE...]: tests the wheel or the sdist in FOLDER (default:
# build/wheel/wheels, from launch/build-wheel.sh), and ends with lines of the table in docs/installing.md.
#
# Without arguments, it installs evenkeel[mpi] from the wheel into a new virtual environment of Debian's Python with NumPy
# 1.26, and of the newest other Python that is found, with the newest NumPy. PyTorch, mpi4py and Open MPI come from the
# Python index. It runs the Python tests there that need no program of Evenkeel, and trains examples/python_trainer.py
# over torch.distributed and over MPI, with the same output.
#
# With --debian, it trains in a bare Debian of each RELEASE (default: bookworm, trixie and jammy), which has only Debian's
# Python, NumPy and PyTorch, and then also Debian's mpi4py. jammy is Ubuntu 22.04, whose PyTorch 1.8 is too old: there it runs
# the Python tests that need neither PyTorch nor a program of Evenkeel, those of the service over MPI among them.
# --sdist builds the sdist in the bare Debian (default: bookworm) and trains with it. Exit status: 77 if no bare Debian can
# be made, so that tests count as skipped.
#
# EVENKEEL_TORCH_INDEX  additional index in which pip finds CPU builds of PyTorch; empty: pip's own index only
# EVENKEEL_PYTHON       the other Python
set -euo pipefail

root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")"

# train FOLDER OVER: prints the sorted output of the trainer in FOLDER on two processes, over torch or mpi.
train() {
  PYTHONPATH="$1/service:${PYTHONPATH:-}" python3 - "$1" "$2" <<'PROGRAM' | sort
import sys

import jobs

folder, over = sys.argv[1:]
for process in jobs.processes([sys.executable, f"{folder}/python_trainer.py", f"{folder}/job.yaml"], 2, over=over, timeout=300):
    print(process.stdout, end="")
PROGRAM
}

# prepare FOLDER: copies what train() needs.
prepare() {
  cp -r "$root/python/tests/service" "$root/examples/python_trainer.py" "$1"
  echo '{source: {kind: synthetic, samples: 64}, batch: {global_batch: 16}}' >"$1/job.yaml"
}

# row PLATFORM FILE WHAT: prints a line of the table.
row() {
  version() { python3 -c "import $1; print($2)" 2>/dev/null || echo none; }
  echo "| $1 | $2 | $(version platform 'platform.python_version()') | $(version numpy numpy.__version__) | $(
    version torch torch.__version__
  ) | $(mpirun --version | sed -n '1s/.* //p') | $3 |"
}

require_steps() {
  grep -q 'rank 1: step 3, .* loss ' "$1"
}

try_environment() {
  local python="$1" environment="$work/environment"
  rm -rf "$environment"
  "$python" -m venv "$environment"
  "$environment/bin/pip" install --quiet ${torch_index:+--extra-index-url "$torch_index"} "${wheel}[mpi,import]" torch pytest "${@:2}"
  (
    export PATH="$environment/bin:$PATH" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
    # shellcheck source=launch/environment.sh
    source "$root/launch/environment.sh"
    unset PYTHONPATH
    mapfile -t tests < <(grep -L '^from buffers' "$root"/python/tests/test_*.py)
    python3 -m pytest -q -p no:cacheprovider "${tests[@]}" "$root"/python/tests/{config_import,drop_in}
    train "$work" torch >"$work/torch"
    require_steps "$work/torch"
    train "$work" mpi | diff "$work/torch" -
    row "virtual environment" wheel "Python tests; trains over torch.distributed and MPI" >>"$work/rows"
  )
}

install() {
  env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@" >/dev/null
}

# Runs inside the bare Debian, as its root. All files needed are in /try.
try_debian() {
  local file what="trains over torch.distributed and MPI"
  file="$(echo /try/evenkeel-*)"
  # shellcheck source=launch/environment.sh
  source /try/launch/environment.sh
  export PYTHONPATH=/try/site PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
  if [[ $file == *.tar.gz ]]; then /try/launch/install-packages.sh --python; fi
  install python3 python3-numpy python3-pip
  python3 -m pip install --quiet --no-index --no-deps --no-build-isolation --target /try/site "$file"
  # shellcheck source=/dev/null
  . /etc/os-release
  if [[ $ID == debian ]]; then
    install python3-torch
    train_with_and_without_mpi "$file"
  else
    install python3-mpi4py openmpi-bin python3-pytest
    cd /try/python/tests
    mapfile -t tests < <(grep -L '^from buffers' test_*.py)
    python3 -m pytest -q -p no:cacheprovider "${tests[@]}"
    python3 -m pytest -q -p no:cacheprovider service/test_service.py -k mpi
    what="Python tests without PyTorch, those of the service over MPI included"
  fi
  row "bare ${NAME% GNU/Linux} $VERSION_ID" "$([[ $file == *.whl ]] && echo wheel || echo sdist)" "$what" \
    >/try/out/row
}

# train_with_and_without_mpi FILE: the sdist has no library for machines without MPI.
train_with_and_without_mpi() {
  if [[ $1 == *.whl ]]; then
    # A package of PyTorch may bring MPI's library, so the service over MPI is hidden.
    mv /try/site/evenkeel/libevenkeel_mpi.so /try
    train /try torch >/try/out/alone
    mv /try/libevenkeel_mpi.so /try/site/evenkeel
  else
    train /try torch >/try/out/alone
  fi
  require_steps /try/out/alone
  train /try torch | diff /try/out/alone -
  install python3-mpi4py openmpi-bin
  train /try mpi | diff /try/out/alone -
}

print_table() {
  echo "| platform | from | Python | NumPy | PyTorch | Open MPI | what works |"
  echo "|---|---|---|---|---|---|---|"
  cat "$work/rows"
}

if [[ "${1:-}" == --inside ]]; then
  try_debian
  exit
fi
folder="$root/build/wheel/wheels"
if [[ "${1:-}" == --in ]]; then
  folder="${2:?--in needs a folder}"
  shift 2
fi
# find_file GLOB: prints the path of the file in the folder.
find_file() {
  compgen -G "$folder/$1" || { echo "test-wheel: there is no $1 in $folder: launch/build-wheel.sh builds it" >&2 && exit 1; }
}
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
prepare "$work"
if [[ "${1:-}" == --debian || "${1:-}" == --sdist ]]; then
  releases=("${@:2}")
  if [[ $1 == --debian ]]; then
    file="$(find_file 'evenkeel-*.whl')"
    if ((${#releases[@]} == 0)); then releases=(bookworm trixie jammy); fi
  else
    file="$(find_file 'evenkeel-*[0-9].tar.gz')"
    if ((${#releases[@]} == 0)); then releases=(bookworm); fi
  fi
  cp "$file" "$work"
  (cd "$root" && git ls-files -z | xargs -0 cp --parents --target-directory "$work")
  for release in "${releases[@]}"; do
    "$root/launch/bare-debian.sh" "$release" "$work" /try/launch/test-wheel.sh --inside
    cat "$work/out/row" >>"$work/rows"
  done
  print_table
  exit
fi
wheel="$(find_file 'evenkeel-*.whl')"
torch_index="${EVENKEEL_TORCH_INDEX-https://download.pytorch.org/whl/cpu}"
try_environment /usr/bin/python3 numpy==1.26.4
# newest_other_python: prints its name. Version managers have programs for versions that are not selected, which only fail.
newest_other_python() {
  local own name
  own="$(basename "$(realpath /usr/bin/python3)")"
  for name in $(compgen -c python3. | grep -xE 'python3\.1[0-9]' | grep -vx "$own" | sort -Vru); do
    if "$name" -c '' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
}
other="${EVENKEEL_PYTHON:-$(newest_other_python)}"
if [[ -n $other ]]; then
  try_environment "$other"
else
  echo "test-wheel: there is no other Python here"
fi
print_table
