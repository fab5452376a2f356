#!/usr/bin/env bash
# Creates .venv with exactly the versions of tests/requirements.txt; does nothing when it already has them.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=tests/requirements.txt
stamp=.venv/requirements.sha256
wanted=$(sha256sum <"$requirements")
if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi
# python3-venv serves the system's Python; another python3 that comes first on PATH may lack ensurepip.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
rm -rf .venv
"$python" -m venv .venv
PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install --quiet --retries 5 -r "$requirements"
echo "$wanted" >"$stamp"
