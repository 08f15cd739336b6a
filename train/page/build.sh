#!/usr/bin/env bash
# Builds the program for a browser in .build/page. Where its compiler is not installed, it says so
# in one line and builds nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=(clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32
  libclang-rt-19-dev-wasm32)
if ! command -v clang++-19 >/dev/null || [ ! -e /usr/lib/wasm32-wasi/libc++abi.a ]; then
  echo "headcount.html is not built: install, on Debian 12, ${packages[*]}"
  exit 0
fi
cmake -S train/page -B .build/page --toolchain "$PWD/train/page/wasm.cmake" "$@" >/dev/null
cmake --build .build/page --parallel "$(nproc)"
