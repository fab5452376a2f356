#!/usr/bin/env bash
# `make bench`: builds the benchmarks with the release flags and lists them. Measure on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -f bench/CMakeLists.txt ]; then
  echo "bench: no benchmark is written yet"
  exit 0
fi
cmake --preset release -DTANDEM_BENCH=ON
scripts/build.sh release
echo "Built:"
find build/release/bench -maxdepth 2 -type f -perm -u+x
