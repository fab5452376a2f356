#!/usr/bin/env bash
# Starts the program on a free loopback port with the bundled model, runs the API suite against it, stops it.
#   tests/run_conformance.sh [--binary FILE] [--features LIST] [--all] [PYTEST ARGUMENT...]
# Default: build/release/tandem, and what tests/conformance_now.txt lists. --all runs every test of the suite.
# Fails when a test fails, or when the server does not leave with code 0 after SIGTERM.
set -uo pipefail
cd "$(dirname "$0")/.."
binary=build/release/tandem
features=""
all=no
pass_on=()
while [ $# -gt 0 ]; do
  case "$1" in
    --binary) binary=$2; shift 2 ;;
    --features) features=$2; shift 2 ;;
    --all) all=yes; shift ;;
    *) pass_on+=("$1"); shift ;;
  esac
done
if [ ! -x "$binary" ]; then
  echo "run_conformance: $binary is not built" >&2
  exit 1
fi
python=.venv/bin/python
[ -x "$python" ] || python=python3
selection=()
if [ "$all" = no ]; then
  [ -n "$features" ] || features=$(sed -n 's/^feature //p' tests/conformance_now.txt | paste -sd,)
  selection+=(-p conformance_now)
fi
[ -z "$features" ] || selection+=(--features "$features")

port=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
log=$(mktemp)
# As tests/conformance/README.md wants the server. Neutral sampling defaults, since some tests compare "off" with unset.
"$binary" serve --host 127.0.0.1 --port "$port" --generation-config vllm --enable-prompt-tokens-details \
  --enable-request-id-headers >"$log" 2>&1 </dev/null &
server=$!
stop_server() {
  kill -TERM "$server" 2>/dev/null
  for _ in $(seq 300); do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$server" 2>/dev/null
  wait "$server"
}
trap 'stop_server >/dev/null 2>&1; rm -f "$log"' EXIT

for _ in $(seq 600); do
  if curl -fsS -o /dev/null "http://127.0.0.1:$port/ready" 2>/dev/null; then ready=yes; break; fi
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
if [ "${ready:-no}" != yes ]; then
  echo "run_conformance: the server did not become ready:"
  cat "$log"
  exit 1
fi

# The suite's own pytest.ini applies only from its folder.
case "$python" in .venv/*) python=$PWD/$python ;; esac
(cd tests/conformance && PYTHONPATH=.. "$python" -m pytest -q -c pytest.ini --rootdir . \
  --base-url "http://127.0.0.1:$port" "${selection[@]}" "${pass_on[@]}")
code=$?
stop_server
left=$?
if [ "$left" -ne 0 ] || [ "$code" -ne 0 ]; then
  [ "$left" -eq 0 ] || echo "run_conformance: the server left with code $left after SIGTERM"
  echo "run_conformance: last lines of its log:"
  tail -n 40 "$log"
fi
[ "$code" -eq 0 ] && [ "$left" -eq 0 ]
