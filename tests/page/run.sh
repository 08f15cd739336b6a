#!/usr/bin/env bash
# Runs a script of this folder under node: run.sh SCRIPT [MODULE [ARGUMENT...]]. Says that it is
# skipped where there is no node, or where train/page/build.sh has not built the module, or where node
# does not know the module's instructions.
set -euo pipefail
if ! command -v node >/dev/null; then
  echo "skipped: there is no node"
elif [ $# -eq 1 ]; then
  exec node "$(dirname "$0")/$1"
elif [ ! -e "$2" ]; then
  echo "skipped: $2 is not built; train/page/build.sh says what that needs"
else
  known=()
  relaxed=--experimental-wasm-relaxed-simd  # of node 18 and 20, which do not multiply and add without
  if node --v8-options | grep -- "$relaxed" >/dev/null; then known=("$relaxed"); fi
  valid='process.exit(WebAssembly.validate(require("fs").readFileSync(process.argv[1])) ? 0 : 1)'
  if ! node "${known[@]}" -e "$valid" "$2"; then
    echo "skipped: this node does not know an instruction of $2"
    exit
  fi
  exec node "${known[@]}" "$(dirname "$0")/$1" "${@:2}"
fi
