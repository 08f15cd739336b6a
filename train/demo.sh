#!/usr/bin/env bash
# Builds headcount and compares five attentions on a corpus of lookups: half a minute of training on
# two cores. The last line says which of them is enough.
set -euo pipefail
cd "$(dirname "$0")/.."
source train/install_packages.sh \
  g++ make cmake libeigen3-dev libgomp1 libcxxopts-dev nlohmann-json3-dev librandom123-dev \
  libutfcpp-dev libssl-dev libdnnl-dev

echo "building ..." >&2
cmake --preset release -DHEADCOUNT_TESTS=OFF >/dev/null
cmake --build --preset release --target headcount_cli --parallel "$(nproc)" >/dev/null
.build/release/headcount compare --out runs/demo "$@"
