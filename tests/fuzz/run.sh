#!/usr/bin/env bash
# Fuzzes each target for some seconds, 20 unless given: a minute on two processors. Starts from the
# seeds of corpus/ and from what earlier runs found, which stays in .build/fuzz/found. An input that
# crashes a target ends the run and lies there, too; once mended, it belongs into corpus/.
set -euo pipefail
cd "$(dirname "$0")/../.."
targets=(safetensors checkpoint_config tokenizer attention_spec command_line)
cmake --preset asan >/dev/null
cmake --build --preset asan --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}" >/dev/null
fuzz() {
  local found=.build/fuzz/found/$1
  mkdir -p "$found"
  ".build/asan/tests/fuzz/fuzz_$1" -max_total_time="$2" -verbosity=0 -print_final_stats=1 \
    -seed="${FUZZ_SEED:-0}" -artifact_prefix="$found/" "$found" "tests/fuzz/corpus/$1" \
    >"$found.log" 2>&1 || { cat "$found.log"; return 255; }  # ends xargs
  echo "fuzz_$1:" $(sed -n 's/^stat::\(number_of_executed_units\|new_units_added\): *//p' "$found.log") \
    "inputs tried, kept"
}
export -f fuzz
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -euc "fuzz {} ${1:-20}"
