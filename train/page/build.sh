#!/usr/bin/env bash
# Builds the program for a browser in .build/page: build.sh [TARGET...], headcount.html without an
# argument. On Debian it installs what that needs; elsewhere, where its compiler is missing, it says
# so in one line and ends with 69, which is EX_UNAVAILABLE of sysexits.h.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=(clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32
  libclang-rt-19-dev-wasm32 make cmake python3 nodejs esbuild libeigen3-dev libsimde-dev
  nlohmann-json3-dev librandom123-dev libutfcpp-dev)
if grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
  source train/install_packages.sh "${packages[@]}"
elif ! command -v clang++-19 >/dev/null || [ ! -e /usr/lib/wasm32-wasi/libc++abi.a ]; then
  echo "headcount.html is not built: install, on Debian 12, ${packages[*]}" >&2
  exit 69
fi
if [ $# -eq 0 ]; then set -- page; fi
cmake -S train/page -B .build/page --toolchain "$PWD/train/page/wasm.cmake" >/dev/null
cmake --build .build/page --parallel "$(nproc)" --target "$@"
