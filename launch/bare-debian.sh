#!/usr/bin/env bash
# launch/bare-debian.sh RELEASE FOLDER COMMAND [ARGUMENT...]: makes a bare Debian of RELEASE (bookworm, trixie) from the
# mirrors that this machine uses, copies FOLDER there as /try, and runs COMMAND in it, as its root. What COMMAND writes to
# /try/out comes back to FOLDER/out; the rest is thrown away.
#
# Exit status: 77 where no bare Debian can be made, with the reason, so that tests count as skipped; 1 where COMMAND fails.
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
# shellcheck disable=SC2016 # apt's words
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
  sed "s/ $own\\b/ $release/" | sort -u >"$work/sources"
[[ -s "$work/sources" ]] || skip "apt knows no mirror of Debian"

# Debian's installer writes it; without it, whoever asks for the host's name waits for a name server.
printf '127.0.0.1\tlocalhost\n127.0.1.1\t%s\n' "$(uname -n)" >"$work/hosts"

# A hook that failed would keep the next one from bringing out what there is. What MPI and Python share lies in /dev/shm.
cat >"$work/try/enter" <<ENTER
#!/bin/sh
cd /try && $(printf '%q ' "${@:3}")
echo \$? >/try/out/status
ENTER
chmod 755 "$work/try/enter"

# Whatever fails before the first hook is the bare Debian's own. A mirror may be a frozen one, whose lists are old.
status=0
# shellcheck disable=SC2016 # the hook's words
mmdebstrap --variant=apt --format=null --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' \
  --dpkgopt=force-unsafe-io \
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
