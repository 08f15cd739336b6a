#!/usr/bin/env bash
# Fuzzes each target with so many new inputs that all take about a minute on two processors, or as
# many times more as the argument says. Starts from the seeds of corpus/ and from what earlier runs
# found, which stays in .build/fuzz/found. An input that crashes a target ends the run and lies there,
# too; once mended, it belongs into corpus/. FUZZ_SEED repeats a run that began without earlier finds.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset asan >/dev/null
cmake --build --preset asan --parallel "$(nproc)" --target fuzz >/dev/null
fuzz() {
  local found=.build/fuzz/found/$1 seeds=tests/fuzz/corpus/$1
  mkdir -p "$found"
  local inputs=$(($2 + $(ls "$found" "$seeds" | wc -l)))  # those there are tried first
  HEADCOUNT_FUZZ=$1 .build/asan/tests/fuzz/fuzz -runs="$inputs" -verbosity=0 -print_final_stats=1 \
    -seed="${FUZZ_SEED:-0}" -artifact_prefix="$found/" "$found" "$seeds" >"$found.log" 2>&1 ||
    { cat "$found.log"; return 255; }  # ends xargs
  echo "$1:" $(sed -n 's/^stat::\(number_of_executed_units\|new_units_added\): *//p' "$found.log") \
    "inputs tried, kept"
}
export -f fuzz
for target in safetensors=20000 checkpoint_config=5000 tokenizer=2000 attention_spec=300 \
  command_line=1500; do
  echo "${target%=*}" $((${target#*=} * ${1:-1}))
done | xargs -P "$(nproc)" -L 1 bash -euc 'fuzz "$@"' fuzz
