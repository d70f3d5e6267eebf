#!/usr/bin/env bash
# launch/bare-debian.sh RELEASE FOLDER COMMAND [ARGUMENT...]: makes a bare Debian of RELEASE (bookworm, trixie) from the
# mirrors that this machine uses, or a bare Ubuntu 22.04 (jammy) from Ubuntu's, copies FOLDER there as /try, and runs
# COMMAND in it, as its root. Files that COMMAND writes to /try/out are copied to FOLDER/out; everything else is discarded.
#
# Exit status: 77 if a bare Debian cannot be made, with the reason, so that tests count as skipped; 1 if COMMAND fails.
set -euo pipefail

skip() {
  echo "bare-debian: skipped: no bare Debian can be made here: $1" >&2
  exit 77
}

if (($# < 3)); then
  echo "bare-debian: RELEASE, FOLDER and COMMAND are needed" >&2
  exit 2
fi
release="$1" folder="$(realpath "$2")"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed; launch/install-packages.sh --debs installs it"
# shellcheck source=/dev/null
own="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/try"
cp -a "$folder/." "$work/try"
rm -rf "$folder/out"
mkdir -p "$work/try/out" "$folder/out"
options=()
if [[ $release == jammy ]]; then
  # Debian has no package with Ubuntu's keys.
  /usr/lib/apt/apt-helper download-file http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb \
    "$work/keys.deb" SHA256:0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f >/dev/null ||
    skip "Ubuntu's archive cannot be reached"
  dpkg-deb --extract "$work/keys.deb" "$work/keys"
  options=(--keyring="$work/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg")
  echo "deb http://archive.ubuntu.com/ubuntu jammy main universe" >"$work/sources"
else
  # shellcheck disable=SC2016 # apt's words
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sed "s/ $own\\b/ $release/" | sort -u >"$work/sources"
  [[ -s "$work/sources" ]] || skip "apt knows no mirror of Debian"
fi

# Debian's installer writes this file. Without it, looking up the host's name waits for a name server.
printf '127.0.0.1\tlocalhost\n127.0.1.1\t%s\n' "$(uname -n)" >"$work/hosts"

# Writes COMMAND's status to a file, since a failed hook would skip the next one, which copies the output. MPI and
# Python share memory in /dev/shm.
cat >"$work/try/enter" <<ENTER
#!/bin/sh
cd /try && $(printf '%q ' "${@:3}")
echo \$? >/try/out/status
ENTER
chmod 755 "$work/try/enter"

# Failures before the first hook are those of the bare Debian. A mirror may be frozen, with outdated lists.
status=0
# shellcheck disable=SC2016 # the hook's words
mmdebstrap --variant=apt --format=null --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' \
  --dpkgopt=force-unsafe-io "${options[@]}" \
  --customize-hook="touch $work/made" --customize-hook="copy-in $work/try /" \
  --customize-hook="[ -e \"\$1/etc/hosts\" ] || cp $work/hosts \"\$1/etc/hosts\"" \
  --customize-hook='mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm"' \
  --customize-hook='env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" /try/enter' \
  --customize-hook='umount "$1/dev/shm"' \
  --customize-hook="sync-out /try/out $folder/out" \
  "$release" /dev/null "$work/sources" </dev/null 2> >(tee "$work/said" >&2) || status=$?
if [[ ! -e "$work/made" ]]; then
  skip "mmdebstrap fails: $(grep -E '^(W|E|Err)[: ]' "$work/said" | head -n 3 | tr '\n' ' ')"
fi
if ((status != 0)) || [[ "$(cat "$folder/out/status")" != 0 ]]; then exit 1; fi
