#!/usr/bin/env bash
# Builds headcount and compares the training steps that five attentions take to learn recall: a
# minute of training on two cores. The last lines say which of them is enough.
set -euo pipefail
cd "$(dirname "$0")/.."
source train/install_packages.sh \
  g++ make cmake libeigen3-dev libgomp1 libcxxopts-dev nlohmann-json3-dev librandom123-dev \
  libutfcpp-dev libssl-dev libdnnl-dev

echo "building ..." >&2
cmake --preset release -DHEADCOUNT_TESTS=OFF >/dev/null
cmake --build --preset release --target headcount_cli lessons --parallel "$jobs" >/dev/null
# The page that trains in a browser: beside the report, which then offers it.
page=.build/page/headcount.html out=${DEMO_OUT:-runs/demo}
if [ -e "$page" ]; then
  mkdir -p "$out"
  cp "$page" "$out"
fi
echo "training five attentions until they have learned; after 3 seconds, ETA says how long" >&2
.build/release/headcount compare --out "$out" "$@"
if [ -e "$page" ]; then
  echo "train and ask in a browser: $(cd "$out" && pwd)/headcount.html" >&2
else
  echo "train and ask in a browser: train/page/build.sh makes $page" >&2
fi
