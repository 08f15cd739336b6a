#!/usr/bin/env bash
# Builds headcount and trains a small model on the built-in corpus: about two minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
source train/install_packages.sh \
  g++ make cmake libeigen3-dev libgomp1 libcxxopts-dev nlohmann-json3-dev librandom123-dev \
  libutfcpp-dev libssl-dev

echo "building ..." >&2
cmake --preset release -DHEADCOUNT_TESTS=OFF >/dev/null
cmake --build --preset release --target headcount_cli --parallel "$(nproc)" >/dev/null
.build/release/headcount train --data tales --attention gqa --out runs/demo --force "$@"
