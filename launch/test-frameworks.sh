#!/usr/bin/env bash
# launch/test-frameworks.sh [--preset NAME] [NAME...]: tests Evenkeel with the unmodified packages of training
# frameworks: each folder of tests/frameworks, or the given ones. Each has a virtual environment with the versions of
# its requirements.txt, and of its without-dependencies.txt if it has one, in build/frameworks/NAME, which is kept while
# the versions stay the same. Tests the Python package of build/PRESET (default: release), and builds it if it is
# missing.
#
# EVENKEEL_TORCH_INDEX  additional index in which pip finds CPU builds of PyTorch; empty: pip's own index only
# EVENKEEL_PYTHON       the Python of the environments (default: python3)
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
torch_index="${EVENKEEL_TORCH_INDEX-https://download.pytorch.org/whl/cpu}"
preset=release
if [[ "${1:-}" == --preset ]]; then
  preset="${2:?--preset needs a name: release or ci}"
  shift 2
fi
names=("$@")
if ((${#names[@]} == 0)); then
  mapfile -t names < <(cd "$root/tests/frameworks" && printf '%s\n' */requirements.txt | xargs -n 1 dirname)
fi

requirements_of() {
  cat "$1/requirements.txt"
  if [[ -f "$1/without-dependencies.txt" ]]; then
    cat "$1/without-dependencies.txt"
  fi
}

# An interrupted environment has no copy of its requirements, and is made again.
prepare_environment() {
  local folder="$1" environment="$2"
  if requirements_of "$folder" | cmp -s - "$environment/requirements.txt"; then
    return
  fi
  local install=("$environment/bin/python" -m pip install --quiet ${torch_index:+--extra-index-url "$torch_index"})
  rm -rf "$environment" &&
    "${EVENKEEL_PYTHON:-python3}" -m venv "$environment" &&
    "${install[@]}" -r "$folder/requirements.txt" &&
    { [[ ! -f "$folder/without-dependencies.txt" ]] ||
      "${install[@]}" --no-deps --ignore-requires-python -r "$folder/without-dependencies.txt"; } &&
    requirements_of "$folder" >"$environment/requirements.txt"
}

test_framework() {
  local folder="$root/tests/frameworks/$1" environment="$root/build/frameworks/$1"
  echo "Testing $1 with $(requirements_of "$folder" | grep -v '^#' | paste -sd ' ')"
  prepare_environment "$folder" "$environment" || return
  PYTHONPATH="$root/build/$preset/python" HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 \
    "$environment/bin/python" -m pytest -q --tb=short -p no:cacheprovider "$folder"
}

for name in "${names[@]}"; do
  if [[ ! -f "$root/tests/frameworks/$name/requirements.txt" ]]; then
    echo "tests/frameworks/$name: has no requirements.txt. Name one of: $(cd "$root/tests/frameworks" && echo */)" >&2
    exit 2
  fi
done
[[ -d "$root/build/$preset/python/evenkeel" ]] || "$root/launch/build.sh" "$preset"
status=0
for name in "${names[@]}"; do
  test_framework "$name" || status=1
done
exit "$status"
