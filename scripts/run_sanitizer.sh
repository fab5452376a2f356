#!/usr/bin/env bash
# scripts/run_sanitizer.sh asan-ubsan|tsan: builds the preset and runs what it is for. The last line counts tests.
# Address and undefined behaviour: all unit tests and a short end-to-end run. Threads: the modules that have some.
set -uo pipefail
cd "$(dirname "$0")/.."
preset=$1
scripts/install_dependencies.sh sanitizer || exit 1
steps_dir=build/logs/$preset
. scripts/steps.sh

# Sanitized servers are five to ten times slower; the suite's time limits grow with that.
short_end_to_end() {
  scripts/venv.sh && tests/run_conformance.sh --binary "build/$preset/tandem" --time-scale 5 \
    --features models,chat,chat_stream,completions,errors_json
}

run_threaded() {
  local runner=() code=0 program
  if setarch "$(uname -m)" -R true 2>/dev/null; then runner=(setarch "$(uname -m)" -R); fi
  for target in "$@"; do
    program=$(find "build/$preset" -type f -name "$target" -perm -u+x | head -n 1)
    echo "-- $program"
    TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}" \
      "${runner[@]}" timeout 900 "$program" --gtest_brief=1 || code=1
  done
  return $code
}

case "$preset" in
  asan-ubsan)
    step asan-build scripts/build.sh "$preset"
    step asan-tests scripts/run_ctest.sh "$preset" -LE slow
    if [ -f src/app/CMakeLists.txt ]; then
      step asan-e2e short_end_to_end
    else
      skip asan-e2e "the program is not built yet"
    fi
    ;;
  tsan)
    [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"
    targets=$(ninja -C "build/$preset" -t targets all |
      sed -nE 's/^((system|net|kernels|kv|model|engine|frontend|serve|e2e|preemption)\w*_test): phony$/\1/p' | sort -u)
    if [ -n "$targets" ]; then
      step tsan-build scripts/build.sh "$preset" $targets
      step tsan-tests run_threaded $targets
    else
      skip tsan-tests "no threaded module is built yet"
      exit 0
    fi
    ;;
  *) echo "run_sanitizer: unknown preset '$preset'" >&2; exit 2 ;;
esac
finish
