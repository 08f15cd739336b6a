#!/usr/bin/env bash
# Runs a script of this folder under node: run.sh SCRIPT MODULE [ARGUMENT...]. Says that it is skipped
# where there is no node, or where train/page/build.sh has not built the module.
set -euo pipefail
if ! command -v node >/dev/null; then
  echo "skipped: there is no node"
elif [ ! -e "$2" ]; then
  echo "skipped: $2 is not built; train/page/build.sh says what that needs"
else
  exec node "$(dirname "$0")/$1" "${@:2}"
fi
