#!/usr/bin/env bash
# Builds the documentation site, without a network: README, the pages of docs, and the APIs of Python and C++. The
# result can be opened in a browser without a server. Warnings are errors.
#
#   launch/site.sh [OUT]
#
# OUT is build/site by default.
# Needs mkdocs, mkdocs-material and Doxygen (install-packages.sh --docs). The exit status is 77 if one is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

out="${1:-$root/build/site}"

# Debian's packages are for Debian's Python, which may not be the first one in PATH.
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
exec "$python" "$root/docs/site/make_site.py" "$out"
