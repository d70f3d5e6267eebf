#!/usr/bin/env bash
# launch/release.sh [--output FOLDER] [--check]: makes the artifacts of a release in FOLDER (default: build/release-artifacts),
# from a clean clone of the committed files: wheel, sdist, their bill of materials, Debian packages for the Debian on which it
# runs, the documentation site, the archive that later versions must be able to read, and checksums. Prints a table of them.
#
# The version is that of VERSION, and all times in artifacts are that of the last commit, so the same commit gives the same
# bytes on the same system. --check makes the artifacts once more, compares them with those in FOLDER, and names those that
# differ. The exit status is 1 if there are any except the archive for later versions: its buffer and states have random
# identities and the times at which they were written.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
output="$root/build/release-artifacts"
check=false
while (($#)); do
  case "$1" in
    --output)
      output="$(realpath -m "${2:?--output needs a folder}")"
      shift 2
      ;;
    --check)
      check=true
      shift
      ;;
    *)
      echo "release: unknown argument '$1'; there are --output and --check" >&2
      exit 2
      ;;
  esac
done

refuse() {
  echo "release: $1" >&2
  exit 1
}

changes="$(git -C "$root" status --porcelain)"
[[ -z $changes ]] || refuse "these changes are not committed, so no clone would have them:"$'\n'"$changes"
version="$(cat "$root/VERSION")"
grep -q "^## \[$version\]" "$root/CHANGELOG.md" || refuse "CHANGELOG.md has no section for $version, which VERSION names"
grep -qx "version: $version" "$root/CITATION.cff" || refuse "CITATION.cff has another version than $version, which VERSION names"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
made="$output"
if [[ $check == true ]]; then
  [[ -f "$output/SHA256SUMS" ]] || refuse "$output has no SHA256SUMS to compare with: launch/release.sh without --check makes it"
  made="$work/again"
elif [[ -d $output && -n "$(ls -A "$output")" ]]; then
  refuse "$output is not empty: empty it, or name another folder with --output"
fi
mkdir -p "$made"

git clone -q --no-hardlinks "$root" "$work/evenkeel"
cd "$work/evenkeel"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH
launch/install-packages.sh --docs
launch/build-wheel.sh
launch/build-debs.sh
cp build/wheel/wheels/* build/debs/packages/*.deb "$made"
wheels=("$made"/*.whl)
python3 launch/sbom.py "${wheels[0]}" >"${wheels[0]%.whl}.cdx.json"

launch/site.sh "$work/site"
launch/pack.sh "$work/site" "$made/evenkeel-$version-site.tar.gz"

# The archive for later versions has the C program of the examples.
cmake -S . --preset debs -DEVENKEEL_BUILD_EXAMPLES=ON </dev/null >/dev/null
cmake --build build/debs --target c_planner </dev/null
# shellcheck source=launch/environment.sh
source launch/environment.sh
archive="evenkeel-$version-compatibility.tar.xz"
python3 tests/compatibility/artifacts.py make "$made/$archive" build/debs --launcher mpirun

cd "$made"
sha256sum -- * >SHA256SUMS
echo
echo "Evenkeel $version of $(date -u -d "@$SOURCE_DATE_EPOCH" +%F)"
echo
echo "| artifact | size |"
echo "|---|---|"
for file in *; do
  echo "| \`$file\` | $(numfmt --to=iec-i --suffix=B "$(stat -c %s "$file")") |"
done
[[ $check == true ]] || exit 0

echo
differences="$({ diff "$output/SHA256SUMS" SHA256SUMS || true; } | sed -n 's/^[<>] [0-9a-f]*  //p' | sort -u)"
[[ -z $differences ]] || printf 'These differ from those in %s:\n%s\n' "$output" "$differences"
if grep -qvxF -e "$archive" -e '' <<<"$differences"; then exit 1; fi
echo "All other artifacts have the same bytes as before."
