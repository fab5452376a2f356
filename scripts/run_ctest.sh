#!/usr/bin/env bash
# scripts/run_ctest.sh PRESET [CTEST ARGUMENT...]: runs the built unit tests of a preset.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
# g++ 12's thread sanitizer cannot map its shadow under the address randomisation of newer kernels.
runner=()
if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
  runner=(setarch "$(uname -m)" -R)
fi
exec "${runner[@]}" ctest --preset "$preset" --no-tests=error -j "${TANDEM_JOBS:-$(nproc)}" "$@"
