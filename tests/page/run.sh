#!/usr/bin/env bash
# Runs a script of this folder under node: run.sh SCRIPT [MODULE [ARGUMENT...]]. Says that it is
# skipped where there is no node, or where train/page/build.sh has not built the module, or where
# node does not know the module's instructions.
set -euo pipefail
skip() { echo "skipped: $1"; exit; }
command -v node >/dev/null || skip "there is no node"
flags=
if [ $# -gt 1 ]; then
  [ -e "$2" ] || skip "$2 is not built; train/page/build.sh says what that needs"
  # Without it node 18 and 20 do not multiply and add in one instruction.
  relaxed=--experimental-wasm-relaxed-simd
  if node --v8-options | grep -- "$relaxed" >/dev/null; then flags=$relaxed; fi
  valid='process.exit(WebAssembly.validate(require("fs").readFileSync(process.argv[1])) ? 0 : 1)'
  node $flags -e "$valid" "$2" || skip "this node does not know an instruction of $2"
fi
exec node $flags "$(dirname "$0")/$1" "${@:2}"
