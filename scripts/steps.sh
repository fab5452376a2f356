# Sourced by run_tests.sh and .ci/run: runs named steps, times them, counts their tests, goes on after a failure.
#   step NAME COMMAND...       runs it, shows and keeps its output in $steps_dir/NAME.log
#   skip NAME REASON           a line in the table for what cannot run here or yet
#   finish                     prints the table and, last, "N passed, N failed"; returns 1 when a step failed
steps_dir=${steps_dir:-build/logs}
steps_table=()
steps_passed=0 steps_failed=0 steps_skipped=0 steps_broken=0

step() {
  local name=$1 start=$SECONDS code=0 counts passed failed skipped word=ok log
  shift
  mkdir -p "$steps_dir"
  log="$steps_dir/$name.log"
  printf '\n==== %s: %s\n' "$name" "$*"
  "$@" 2>&1 </dev/null | tee "$log" || code=${PIPESTATUS[0]}
  # The counter stands beside this file; a step without tests counts nothing.
  counts=$(python3 "$(dirname "${BASH_SOURCE[0]}")/count_tests.py" "$log" 2>/dev/null || echo "0 0 0")
  read -r passed failed skipped <<<"$counts"
  if [ "$code" -ne 0 ]; then
    word="FAILED ($code)"
    steps_broken=$((steps_broken + 1))
    # A step that fails before a test could is one failure.
    [ "$failed" -gt 0 ] || failed=1
  elif [ "$failed" -gt 0 ]; then
    word=FAILED
    steps_broken=$((steps_broken + 1))
  fi
  steps_passed=$((steps_passed + passed))
  steps_failed=$((steps_failed + failed))
  steps_skipped=$((steps_skipped + skipped))
  steps_table+=("$(printf '%-18s %-12s %5d s  %6d %6d %6d' "$name" "$word" $((SECONDS - start)) "$passed" "$failed" "$skipped")")
  printf '==== %s: %s, %d s\n' "$name" "$word" $((SECONDS - start))
  [ "$word" = ok ]
}

skip() {
  steps_table+=("$(printf '%-18s %-12s %s' "$1" skipped "$2")")
  printf '\n==== %s: skipped: %s\n' "$1" "$2"
}

finish() {
  printf '\n%-18s %-12s %7s  %6s %6s %6s\n' step result time passed failed skipped
  printf '%s\n' "${steps_table[@]}"
  printf '\n'
  local line="$steps_passed passed, $steps_failed failed"
  [ "$steps_skipped" -eq 0 ] || line+=", $steps_skipped skipped"
  if [ "$steps_passed" -eq 0 ] && [ "$steps_failed" -eq 0 ]; then
    echo "no test ran"
    line="0 passed, 1 failed"
    steps_broken=1
  fi
  echo "$line"
  [ "$steps_broken" -eq 0 ]
}
