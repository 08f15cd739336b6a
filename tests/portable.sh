#!/usr/bin/env bash
# Builds the program with clang and libc++ and without the libraries that another system may lack:
# OpenMP, oneDNN and MPI. It then runs on one thread. Runs the tests, except those of random cases:
# rapidcheck is installed for libstdc++ only. Arguments go to ctest. On macOS it takes the system's
# compiler and Homebrew's packages.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.build/portable
jobs=$(nproc 2>/dev/null || sysctl -n hw.ncpu)
if [ "$(uname)" = Darwin ]; then
  brew install --quiet cmake eigen@3 cxxopts nlohmann-json random123 utf8cpp openssl@3 googletest
  compiler=(-DCMAKE_BUILD_TYPE=Release)
  prefix="$(brew --prefix);$(brew --prefix eigen@3);$(brew --prefix openssl@3)"
else
  source train/install_packages.sh clang-19 libc++-19-dev libc++abi-19-dev make cmake \
    libeigen3-dev libcxxopts-dev nlohmann-json3-dev librandom123-dev libutfcpp-dev libssl-dev \
    googletest python3
  compiler=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=Release)
  prefix="$PWD/$folder/prefix"
  # GoogleTest of the distribution is built for libstdc++; its sources are a package, too.
  cmake -S /usr/src/googletest -B "$folder/googletest" "${compiler[@]}" -DBUILD_GMOCK=OFF \
    "-DCMAKE_CXX_FLAGS=-stdlib=libc++ -w" -DCMAKE_INSTALL_PREFIX="$prefix" >/dev/null
  cmake --build "$folder/googletest" --parallel "$jobs" --target install >/dev/null
  compiler+=(-DCMAKE_CXX_FLAGS=-stdlib=libc++)
fi
cmake -S . -B "$folder/headcount" "${compiler[@]}" "-DCMAKE_PREFIX_PATH=$prefix" \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 -DHEADCOUNT_OPENMP=OFF \
  -DHEADCOUNT_GEMM=eigen -DHEADCOUNT_MPI=OFF -DHEADCOUNT_TESTS=ON -DHEADCOUNT_RAPIDCHECK=OFF \
  >/dev/null
cmake --build "$folder/headcount" --parallel "$jobs"
ctest --test-dir "$folder/headcount" --output-on-failure --parallel "$jobs" "$@"
