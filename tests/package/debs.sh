#!/usr/bin/env bash
# debs.sh TORCH_BUILT: makes Debian packages from the build, and checks their dependencies and contents.
set -euo pipefail
# shellcheck source=tests/package/environment.sh
source "$(dirname "$0")/environment.sh"
torch=$1

for tool in dpkg-deb dpkg-shlibdeps; do
  command -v "$tool" >/dev/null && continue
  echo "skipped: $tool is not installed; launch/install-packages.sh --debs installs it, on Debian"
  exit 77
done
cd "$BUILD"
rm -rf packages
"$(dirname "$CMAKE")/cpack" -G DEB >/dev/null

fail() {
  echo "$1" >&2
  exit 1
}
# The field FIELD of PACKAGE must match each PATTERN; a PATTERN after ! must not match.
expect_field() { # PACKAGE FIELD PATTERN...
  local value pattern
  value="$(dpkg-deb -f packages/"$1"_*.deb "$2")"
  for pattern in "${@:3}"; do
    if [[ $pattern == !* ]]; then
      [[ ! "$value" =~ ${pattern#!} ]] || fail "$2 of $1 is '$value', which has ${pattern#!}"
    else
      [[ "$value" =~ $pattern ]] || fail "$2 of $1 is '$value', without $pattern"
    fi
  done
}
files_of() {
  dpkg-deb -c packages/"$1"_*.deb | awk '$1 !~ /^d/ {print $6}'
}
expect_files() { # PACKAGE PATTERN...
  local files pattern
  files="$(files_of "$1")"
  for pattern in "${@:2}" "^\./usr/share/doc/$1/copyright$" "^\./usr/share/doc/$1/changelog.gz$"; do
    if [[ $pattern == !* ]]; then
      ! grep -E -- "${pattern#!}" <<<"$files" || fail "$1 holds these"
    else
      grep -qE -- "$pattern" <<<"$files" || fail "$1 holds no $pattern"
    fi
  done
}

version="$(cat "$SOURCE/VERSION")"
packages=(evenkeel libevenkeel-dev "libevenkeel${version%%.*}")
expect_field "${packages[2]}" Depends libc6 libopenmpi '!-dev'
expect_field "${packages[2]}" Section '^libs$'
expect_files "${packages[2]}" "/libevenkeel\.so\.$version$" "/libevenkeel_mpi\.so\.$version$" '!\.(a|h|hpp|cmake|pc)$' '!/libevenkeel\.so$'
expect_field libevenkeel-dev Depends "${packages[2]} \(= $version\)"
expect_files libevenkeel-dev '/libevenkeel\.so$' '/evenkeel/c/evenkeel\.h$' '/EvenkeelTargets-c\.cmake$' \
  '/libevenkeel_mpi\.so$' '/EvenkeelTargets-c_mpi\.cmake$' '/pkgconfig/evenkeel-c-mpi\.pc$'
expect_field evenkeel Depends openmpi-bin libc6 libyaml-cpp '!-dev'
expect_field evenkeel Version "^$version$"
expect_files evenkeel '^\./usr/bin/evenkeel$' '/configs/quickstart\.yaml$' '/docs/installing\.md$' '!\.(a|hpp|cmake|pc|py)$'
expect_field libevenkeel-dev Depends libyaml-cpp-dev libopenmpi-dev libboost-mpi-dev '!torch'
expect_field libevenkeel-dev Section '^libdevel$'
expect_files libevenkeel-dev '/evenkeel/planner\.hpp$' '/libevenkeel_service\.a$' '/EvenkeelConfig\.cmake$' \
  '/EvenkeelTargets-service\.cmake$' '/pkgconfig/evenkeel-plan\.pc$' '/pkgconfig/evenkeel-c\.pc$' '!/bin/' '!torch'
if [[ $torch == TRUE ]]; then
  packages+=(libevenkeel-torch-dev)
  expect_field libevenkeel-torch-dev Depends "libevenkeel-dev \(= $version\)" libtorch-dev
  expect_files libevenkeel-torch-dev '/evenkeel/torch/prefix_grouper\.hpp$' '/EvenkeelTargets-torch\.cmake$' \
    '/pkgconfig/evenkeel-torch\.pc$'
fi
for package in "${packages[@]}"; do
  expect_field "$package" Maintainer '.+ <.+@.+>'
  expect_field "$package" Description 'micro-batches'
done
twice="$(for package in "${packages[@]}"; do files_of "$package"; done | sort | uniq -d)"
[[ -z "$twice" ]] || fail "Two packages hold $twice"
ls packages
