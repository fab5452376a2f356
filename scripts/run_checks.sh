#!/usr/bin/env bash
# `make check`: everything that looks at the sources without running them. Each check says what it found.
set -uo pipefail
cd "$(dirname "$0")/.."
code=0
scripts/check_tree.sh || code=1
scripts/check_layers.py || code=1
scripts/check_format.sh || code=1
scripts/check_headers.py || code=1
scripts/check_cases.py || code=1
if command -v clang-tidy-19 >/dev/null && [ ! -f build/release/compile_commands.json ]; then
  cmake --preset release >/dev/null || code=1
fi
scripts/run_clang_tidy.py || code=1
exit $code
