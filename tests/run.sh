#!/usr/bin/env bash
# Builds everything and runs all tests.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++ make cmake libeigen3-dev libgomp1 libcxxopts-dev nlohmann-json3-dev
  librandom123-dev libutfcpp-dev libssl-dev libdnnl-dev libopenmpi-dev libgtest-dev librapidcheck-dev
  python3)
# Ubuntu has no browser in packages, and other versions of clang for WebAssembly: there the tests of
# pages are skipped. What the page is built with, its own script installs.
if grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
  packages+=(chromium chromium-driver nodejs)
fi
# For the benchmarks, the thread sanitizer and the check of the format of .ci/run.
if [ -n "${CI:-}" ]; then
  packages+=(libbenchmark-dev clang clang-format libclang-rt-dev libomp-dev)
fi
source train/install_packages.sh "${packages[@]}"

options=()
if [ -n "${CI:-}" ]; then options+=(-DHEADCOUNT_BENCHMARKS=ON -DHEADCOUNT_WERROR=ON); fi
cmake --preset release -DHEADCOUNT_TESTS=ON "${options[@]}" >/dev/null
cmake --build --preset release --parallel "$(nproc)"
train/page/build.sh page gradients
ctest --preset release --parallel "$(nproc)" "$@"
