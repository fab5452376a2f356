#!/usr/bin/env bash
# `make fuzz`: builds the fuzzers of tests/fuzz with address and undefined-behaviour sanitizers, runs each for
# FUZZ_SECONDS (default 300), one after the other. Says how much each tried; fails when one finds something.
#   scripts/run_fuzz.sh [FUZZER...]      default: all of them
# New inputs that reach new code go to build/fuzz/corpus, what fails to build/fuzz/found.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-300}
fuzzers=("$@")
if [ ${#fuzzers[@]} -eq 0 ]; then
  for file in tests/fuzz/*_fuzz.cc; do fuzzers+=("$(basename "$file" _fuzz.cc)"); done
fi
for name in "${fuzzers[@]}"; do
  [ -f "tests/fuzz/${name}_fuzz.cc" ] || { echo "run_fuzz: there is no fuzzer '$name' in tests/fuzz" >&2; exit 2; }
done
command -v clang++-19 >/dev/null || { echo "run_fuzz: clang++-19 is not installed (libFuzzer comes with it)" >&2; exit 1; }
scripts/build.sh fuzz "${fuzzers[@]/%/_fuzz}" || exit 1

export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
mkdir -p build/fuzz/found build/logs/fuzz
code=0
printf '%-16s %8s %12s %10s %8s  %s\n' fuzzer seconds inputs "inputs/s" edges result
for name in "${fuzzers[@]}"; do
  corpus=build/fuzz/corpus/$name
  log=build/logs/fuzz/$name.log
  mkdir -p "$corpus"
  dictionary=()
  [ ! -f "tests/fuzz/dict/$name.dict" ] || dictionary=(-dict="tests/fuzz/dict/$name.dict")
  # What takes 10 s or 2 GB is a fault, too.
  "build/fuzz/tests/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/found/$name-" "${dictionary[@]}" \
    "$corpus" "tests/fuzz/corpus/$name" >"$log" 2>&1
  if [ $? -eq 0 ]; then result="nothing found"; else result="FOUND, see $log"; code=1; fi
  inputs=$(sed -nE 's/^stat::number_of_executed_units: *([0-9]+).*/\1/p' "$log")
  rate=$(sed -nE 's/^stat::average_exec_per_sec: *([0-9]+).*/\1/p' "$log")
  edges=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1 | cut -d' ' -f2)
  printf '%-16s %8s %12s %10s %8s  %s\n' "$name" "$seconds" "${inputs:-?}" "${rate:-?}" "${edges:-?}" "$result"
done
exit $code
