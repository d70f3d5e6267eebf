#!/usr/bin/env bash
# Builds the documentation site, without a network: README and the pages of docs, the APIs of Python and C++. It opens in a
# browser as it lies there. Warnings are errors.
#
#   launch/site.sh [--preset NAME | --build DIR] [OUT]
#
# OUT is build/site unless given. NAME or DIR, build/release unless given, is the build whose Python package is described.
# Needs mkdocs, mkdocs-material and Doxygen (install-packages.sh --docs); ends with 77 where one is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

build="$root/build/release"
out="$root/build/site"
while (($#)); do
  case "$1" in
    --preset)
      build="$root/build/${2:?--preset needs a name}"
      shift
      ;;
    --build)
      build="${2:?--build needs a folder}"
      shift
      ;;
    -*)
      echo "site: unknown argument '$1'; there are --preset and --build" >&2
      exit 2
      ;;
    *) out="$1" ;;
  esac
  shift
done

# Debian's packages are for Debian's Python, which need not be the first one.
can_build='
import importlib.metadata, yaml, mkdocs, pymdownx
assert any(theme.name == "material" for theme in importlib.metadata.entry_points(group="mkdocs.themes"))'
python=""
for tried in python3 /usr/bin/python3; do
  if "$tried" -c "$can_build" 2>/dev/null; then
    python="$tried"
    break
  fi
done
if [[ -z "$python" ]] || ! command -v doxygen >/dev/null; then
  echo "site: mkdocs, mkdocs-material or Doxygen is missing: launch/install-packages.sh --docs installs them" >&2
  exit 77
fi
exec "$python" "$root/docs/site/make_site.py" --build "$build" "$out"
