#!/usr/bin/env bash
# Fails when a C++ or CUDA file is not as clang-format-19 writes it. `scripts/check_format.sh --fix` rewrites them.
set -euo pipefail
cd "$(dirname "$0")/.."
# Another version formats differently; skipping with a word beats false alarms.
if ! command -v clang-format-19 >/dev/null; then
  echo "check_format: clang-format-19 is not installed; skipped"
  exit 0
fi
mode=(--dry-run -Werror)
[ "${1:-}" != --fix ] || mode=(-i)
mapfile -d '' files < <(git ls-files -z --cached --others --exclude-standard -- \
  'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' 'tests/*.h' 'tests/*.cc' 'bench/*.h' 'bench/*.cc' 'python/*.cc' 'python/*.h')
if [ "${#files[@]}" -gt 0 ]; then
  printf '%s\0' "${files[@]}" | xargs -0 -n 16 -P "$(nproc)" clang-format-19 "${mode[@]}"
fi
echo "check_format: ${#files[@]} files"
