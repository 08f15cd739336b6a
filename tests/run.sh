#!/usr/bin/env bash
# Builds the program and tests it: in float, with gradients and other people's numbers in double.
# run.sh --all builds everything and runs all tests: the slow ones too, those in double, and pages
# in a browser, unless --no-page follows. Further arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++ make cmake libeigen3-dev libgomp1 libcxxopts-dev nlohmann-json3-dev
  librandom123-dev libutfcpp-dev libssl-dev libdnnl-dev libopenmpi-dev libgtest-dev librapidcheck-dev
  python3)
# Lists are never empty: the bash of macOS takes an empty one for an unset variable.
build=(--preset release --target headcount_cli quick_tests)
tests=(--preset release --label-exclude '^(slow|double|browser|page|install|client|bench)$')
page=
if [ "${1:-}" = --all ]; then
  shift
  build=(--preset release)
  tests=(--preset release)
  page=yes
  if [ "${1:-}" = --no-page ]; then
    shift
    page=
    tests+=(--label-exclude '^(page|browser)$')
  fi
  # Ubuntu has no browser in packages, and other versions of clang for WebAssembly: there the tests
  # of pages are skipped. What the page is built with, its own script installs.
  if grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
    packages+=(chromium chromium-driver nodejs)
  fi
fi
# For the sanitizers, fuzzing and the check of the format of .ci/run.
if [ -n "${CI:-}" ]; then
  packages+=(clang clang-format libclang-rt-dev libomp-dev)
fi
source train/install_packages.sh "${packages[@]}"

options=(-DHEADCOUNT_TESTS=ON)
if [ -n "${CI:-}" ]; then options+=(-DHEADCOUNT_BENCHMARKS=ON -DHEADCOUNT_WERROR=ON); fi
cmake --preset release "${options[@]}" >/dev/null
cmake --build "${build[@]}" --parallel "$jobs"
if [ -n "$page" ]; then
  train/page/build.sh || [ $? -eq 69 ] # its compiler is missing: the tests of the page are skipped
fi
ctest "${tests[@]}" --parallel "$jobs" "$@"

# What a test lacked is in the line after "Skipped" or in its own "skipped: ...". CI has all packages.
skipped=$(sed -n '/: Skipped$/{n;p}; /^skipped: /p' .build/release/Testing/Temporary/LastTest.log |
  sort | uniq -c)
if [ -n "$skipped" ]; then
  echo "Tests that were skipped, and why:"
  echo "$skipped"
  if [ -n "${CI:-}" ] && grep -vE 'the processor has|Python has no' <<<"$skipped"; then exit 1; fi
fi
