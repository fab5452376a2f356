#!/usr/bin/env bash
# `make test`: installs what is missing, builds the release tree, runs every test. Last line: "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh test || exit 1
steps_dir=build/logs/test
. scripts/steps.sh

step python-packages scripts/venv.sh
step build scripts/build.sh release
step tools python3 -m unittest discover -s tests/tools
step ctest scripts/run_ctest.sh release
if [ -f src/app/CMakeLists.txt ]; then
  step cli .venv/bin/python -m pytest -q tests/cli
  step conformance tests/run_conformance.sh
else
  skip cli "the program is not built yet"
  skip conformance "the program is not built yet"
fi
finish
