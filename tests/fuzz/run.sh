#!/usr/bin/env bash
# Fuzzes each target with so many new inputs that all take about a minute on two processors, or as
# many times more as the argument says. Starts from the seeds of corpus/ and from what earlier runs
# found, which stays in .build/fuzz/found. An input that crashes a target ends the run and lies there,
# too; once mended, it belongs into corpus/. FUZZ_SEED repeats a run that began without earlier finds.
set -euo pipefail
cd "$(dirname "$0")/../.."
targets=(safetensors checkpoint_config tokenizer attention_spec command_line)
inputs=(20000 5000 2000 300 1500)
cmake --preset asan >/dev/null
cmake --build --preset asan --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}" >/dev/null
fuzz() {
  local found=.build/fuzz/found/$1
  mkdir -p "$found"
  local inputs=$(($2 + $(ls "$found" "tests/fuzz/corpus/$1" | wc -l)))  # those there are tried first
  ".build/asan/tests/fuzz/fuzz_$1" -runs="$inputs" -verbosity=0 -print_final_stats=1 \
    -seed="${FUZZ_SEED:-0}" -artifact_prefix="$found/" "$found" "tests/fuzz/corpus/$1" \
    >"$found.log" 2>&1 || { cat "$found.log"; return 255; }  # ends xargs
  echo "fuzz_$1:" $(sed -n 's/^stat::\(number_of_executed_units\|new_units_added\): *//p' "$found.log") \
    "inputs tried, kept"
}
export -f fuzz
for i in "${!targets[@]}"; do echo "${targets[i]}" $((inputs[i] * ${1:-1})); done |
  xargs -P "$(nproc)" -L 1 bash -euc 'fuzz "$@"' fuzz
