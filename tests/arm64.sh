#!/usr/bin/env bash
# Builds everything for 64-bit ARM on another processor, with Eigen's products, and runs all tests
# under qemu. On Debian; it takes too long to be part of the other checks.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! dpkg --print-foreign-architectures | grep -q arm64; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" dpkg --add-architecture arm64
fi
source train/install_packages.sh g++-aarch64-linux-gnu qemu-user make cmake libeigen3-dev \
  libcxxopts-dev nlohmann-json3-dev librandom123-dev libutfcpp-dev python3 \
  libstdc++6:arm64 libgomp1:arm64 libssl-dev:arm64 libgtest-dev:arm64 librapidcheck-dev:arm64

# qemu heeds no limits of memory and threads, and a test that starts its own program again needs a kernel
# that hands such programs to qemu.
left_out='*ThatMemoryCannotHold*:*ThatMemoryDoesNotSuffice*:*ThatAreRefusedAreNamed*:*LeavesProductsAlone*'
cmake -S . -B .build/arm64 --toolchain "$PWD/tests/arm64.cmake" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DHEADCOUNT_NATIVE=OFF -DHEADCOUNT_GEMM=eigen \
  -DHEADCOUNT_MPI=OFF -DHEADCOUNT_WERROR=ON -DHEADCOUNT_TESTS=ON \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 "-DHEADCOUNT_LEFT_OUT=$left_out" >/dev/null
cmake --build .build/arm64 --parallel "$(nproc)"
# No browser looks at a page of the other processor's.
ctest --test-dir .build/arm64 --output-on-failure --parallel "$(nproc)" --label-exclude browser "$@"
