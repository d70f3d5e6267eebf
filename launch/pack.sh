#!/usr/bin/env bash
# launch/pack.sh FOLDER ARCHIVE: packs FOLDER into ARCHIVE (.tar.gz). The same files give the same bytes: they are sorted, and
# their owner is root and their time that of SOURCE_DATE_EPOCH, or now.
set -euo pipefail

name="$(basename "$1")"
tar --create --sort=name --format=pax --pax-option=delete=atime,delete=ctime --owner=0 --group=0 --numeric-owner \
  --mode=go=rX,u+rw --mtime="@${SOURCE_DATE_EPOCH:-$(date +%s)}" --directory "$(dirname "$1")" "$name" |
  gzip -9n >"$2"
