#!/usr/bin/env bash
# Builds the program as another system than Linux has it, and runs the tests, except those of random
# cases: rapidcheck is installed for libstdc++ only. On macOS with the system's compiler and Homebrew's
# packages. On Debian with clang and libc++, on one thread, without oneDNN and MPI, and so that what
# macOS lacks or has otherwise is an error: names that only Linux has (tests/portable.h), and integers
# of 64 bits that are taken for a std::size_t or std::ptrdiff_t. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.build/portable
jobs=$(nproc 2>/dev/null || sysctl -n hw.ncpu)
if [ "$(uname)" = Darwin ]; then
  brew install --quiet cmake eigen@3 cxxopts nlohmann-json random123 utf8cpp openssl@3 libomp \
    googletest
  options=(-DCMAKE_BUILD_TYPE=Release)
else
  source train/install_packages.sh clang-19 libc++-19-dev libc++abi-19-dev make cmake \
    libeigen3-dev libcxxopts-dev nlohmann-json3-dev librandom123-dev libutfcpp-dev libssl-dev \
    googletest python3
  mkdir -p "$folder/headers/bits"
  types=(/usr/include/*-linux-gnu/bits/types.h)
  sed -E 's/^typedef (un)?signed long int (__u?int64_t);/typedef \1signed long long int \2;/' \
    "${types[0]}" >"$folder/headers/bits/types.h"
  library="-stdlib=libc++ -isystem $PWD/$folder/headers"
  options=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=Release)
  # GoogleTest of the distribution is built for libstdc++; its sources are a package, too.
  prefix="$PWD/$folder/prefix"
  cmake -S /usr/src/googletest -B "$folder/googletest" "${options[@]}" -DBUILD_GMOCK=OFF \
    "-DCMAKE_CXX_FLAGS=$library -w" -DCMAKE_INSTALL_PREFIX="$prefix" >/dev/null
  cmake --build "$folder/googletest" --parallel "$jobs" --target install >/dev/null
  options+=("-DCMAKE_PREFIX_PATH=$prefix" -DHEADCOUNT_OPENMP=OFF
    "-DCMAKE_CXX_FLAGS=$library -DHEADCOUNT_PORTABLE -include $PWD/tests/portable.h")
fi
cmake -S . -B "$folder/headcount" "${options[@]}" \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 \
  -DHEADCOUNT_GEMM=eigen -DHEADCOUNT_MPI=OFF -DHEADCOUNT_TESTS=ON -DHEADCOUNT_RAPIDCHECK=OFF \
  >/dev/null
cmake --build "$folder/headcount" --parallel "$jobs"
ctest --test-dir "$folder/headcount" --output-on-failure --parallel "$jobs" "$@"
