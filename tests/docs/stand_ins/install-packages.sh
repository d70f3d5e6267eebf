#!/usr/bin/env bash
# Replaces launch/install-packages.sh when the commands of the documentation are checked: installs nothing, but refuses the same
# arguments.
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
