#!/usr/bin/env bash
# Fuzzes each target for some seconds, 12 unless given: a minute of processor time. Starts from the
# seeds of corpus/ and from what earlier runs found, which stays in .build/fuzz/found. An input that
# crashes a target ends the run and lies there, too; once mended, it belongs into corpus/.
set -euo pipefail
cd "$(dirname "$0")/../.."
targets=(safetensors checkpoint_config tokenizer attention_spec command_line)
cmake -S . -B .build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 \
  -DHEADCOUNT_FUZZ=ON -DHEADCOUNT_NATIVE=OFF -DHEADCOUNT_GEMM=eigen -DHEADCOUNT_OPENMP=OFF \
  -DHEADCOUNT_MPI=OFF >/dev/null
cmake --build .build/fuzz --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}" >/dev/null
fuzz() {
  local found=.build/fuzz/found/$1
  mkdir -p "$found"
  ".build/fuzz/tests/fuzz/fuzz_$1" -max_total_time="$2" -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found" "tests/fuzz/corpus/$1" >"$found.log" 2>&1 ||
    { cat "$found.log"; return 255; }  # ends xargs
  echo "fuzz_$1:" $(sed -n 's/^stat::\(number_of_executed_units\|new_units_added\): *//p' "$found.log") \
    "inputs tried, kept"
}
export -f fuzz
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -euc "fuzz {} ${1:-12}"
