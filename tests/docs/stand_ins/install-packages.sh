#!/usr/bin/env bash
# Stands in for launch/install-packages.sh where the commands of the documents are checked: installs nothing, and
# refuses what that would refuse.
set -euo pipefail
for argument; do
  case "$argument" in
    --tests | --torch | --python | --docs) ;;
    *)
      echo "install-packages: unknown argument '$argument'" >&2
      exit 2
      ;;
  esac
done
