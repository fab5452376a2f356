#!/usr/bin/env bash
# `make arm`: cross compiles the floors up to kernels for Arm and runs their tests under qemu as neoverse-n1 (the
# stand-in for Kunpeng 920). For correctness only: qemu says nothing about speed. The last line counts tests.
set -uo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" = aarch64 ]; then
  echo "run_arm: this machine is an Arm machine; run make test"
  exit 0
fi
scripts/install_dependencies.sh arm || exit 1
steps_dir=build/logs/arm64
. scripts/steps.sh

run_emulated() {
  local code=0 program
  for target in "$@"; do
    program=$(find build/arm64 -type f -name "$target" -perm -u+x | head -n 1)
    echo "-- $program"
    timeout 900 qemu-aarch64-static -cpu "${TANDEM_ARM_CPU:-neoverse-n1}" -L /usr/aarch64-linux-gnu \
      -E "LD_LIBRARY_PATH=$PWD/build/arm64-sysroot/usr/lib/aarch64-linux-gnu" "$program" --gtest_brief=1 || code=1
  done
  return $code
}

step arm-sysroot scripts/arm_sysroot.sh || { finish; exit 1; }
if [ ! -f build/arm64/build.ninja ]; then
  step arm-configure cmake --preset arm64 || { finish; exit 1; }
fi
targets=$(ninja -C build/arm64 -t targets all |
  sed -nE 's/^((base|system|tensor|quant|kernels)\w*_test): phony$/\1/p' | sort -u)
step arm-build scripts/build.sh arm64 $targets && step arm-tests run_emulated $targets
finish
