#!/usr/bin/env bash
# scripts/build.sh PRESET [TARGET...]: configures build/PRESET when needed and builds the targets (default: all).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
# CMake writes build.ninja only after a configure run that succeeded; Ninja re-runs CMake itself later.
if [ ! -f "build/$preset/build.ninja" ]; then
  cmake --preset "$preset"
fi
# Network code takes close to 1 GB a compiler: no more jobs than memory for them.
memory_gb=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo 2>/dev/null || echo 4)
jobs=$(nproc)
if [ "$memory_gb" -lt "$jobs" ]; then jobs=$((memory_gb > 1 ? memory_gb : 1)); fi
cmake --build "build/$preset" -j "${TANDEM_JOBS:-$jobs}" ${1:+--target "$@"}
