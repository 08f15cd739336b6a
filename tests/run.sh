#!/usr/bin/env bash
# Builds everything and runs all tests.
set -euo pipefail
cd "$(dirname "$0")/.."
source train/install_packages.sh \
  g++ make cmake libeigen3-dev libgomp1 libcxxopts-dev nlohmann-json3-dev librandom123-dev \
  libutfcpp-dev libssl-dev libgtest-dev librapidcheck-dev

cmake --preset release -DHEADCOUNT_TESTS=ON >/dev/null
cmake --build --preset release --parallel "$(nproc)"
ctest --preset release --parallel "$(nproc)" "$@"
