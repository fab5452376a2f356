#!/usr/bin/env bash
# Starts the program on a free loopback port with the bundled model, runs the API suite against it, stops it; then once
# more with a key, for the features that need one.
#   tests/run_conformance.sh [--binary FILE] [--features LIST] [--all] [--table FILE] [PYTEST ARGUMENT...]
# Default: build/release/tandem, and what tests/conformance_now.txt lists. --all runs every test of the suite.
# --table writes the score as docs/conformance.md has it. An argument with a value is given as --name=value.
# Fails when a test fails, or when the server does not leave with code 0 after SIGTERM.
set -uo pipefail
cd "$(dirname "$0")/.."
list=tests/conformance_now.txt
binary=build/release/tandem
features=""
all=no
table=""
pass_on=()
while [ $# -gt 0 ]; do
  case "$1" in
    --binary) binary=$2; shift 2 ;;
    --features) features=$2; shift 2 ;;
    --all) all=yes; shift ;;
    --table) table=$2; shift 2 ;;
    *) pass_on+=("$1"); shift ;;
  esac
done
if [ ! -x "$binary" ]; then
  echo "run_conformance: $binary is not built" >&2
  exit 1
fi
python=.venv/bin/python
[ -x "$python" ] || python=python3
# The suite's own pytest.ini applies only from its folder.
case "$python" in .venv/*) python=$PWD/$python ;; esac

origin=http://localhost:3000
key=conformance-key-$RANDOM$RANDOM
keyed=$(sed -n 's/^keyed //p' "$list")
plain_features=""
keyed_features=""
if [ -n "$features" ]; then
  for feature in ${features//,/ }; do
    if grep -qx "$feature" <<<"$keyed"; then keyed_features+=",$feature"; else plain_features+=",$feature"; fi
  done
else
  [ "$all" = yes ] || plain_features=$(sed -n 's/^feature /,/p' "$list" | tr -d '\n')
  keyed_features=$(sed 's/^/,/' <<<"$keyed" | tr -d '\n')
fi
plain_features=${plain_features#,}
keyed_features=${keyed_features#,}
selection=()
[ "$all" = yes ] || selection+=(-p conformance_now)

log=$(mktemp)
scores=$(mktemp -d)
server=""
stop_server() {
  [ -n "$server" ] || return 0
  kill -TERM "$server" 2>/dev/null
  for _ in $(seq 300); do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$server" 2>/dev/null
  wait "$server"
  local left=$?
  server=""
  return "$left"
}
trap 'stop_server >/dev/null 2>&1; rm -rf "$log" "$scores"' EXIT

# As tests/conformance/README.md wants the server. Neutral sampling defaults, since some tests compare "off" with unset.
start_server() { # SERVER ARGUMENT...
  port=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
  "$binary" serve --host 127.0.0.1 --port "$port" --generation-config vllm --enable-prompt-tokens-details \
    --enable-request-id-headers --allowed-origins "[\"$origin\"]" "$@" >"$log" 2>&1 </dev/null &
  server=$!
  for _ in $(seq 600); do
    if curl -fsS -o /dev/null "http://127.0.0.1:$port/ready" 2>/dev/null; then return 0; fi
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  echo "run_conformance: the server did not become ready:"
  cat "$log"
  return 1
}

run_suite() { # NAME FEATURES PYTEST ARGUMENT...
  local name=$1 wanted=()
  [ -z "$2" ] || wanted=("--features=$2")
  shift 2
  (cd tests/conformance && PYTHONPATH=.. "$python" -m pytest -q -c pytest.ini --rootdir . \
    --base-url="http://127.0.0.1:$port" --score-json="$scores/$name.json" "${selection[@]}" "${wanted[@]}" "$@" \
    ${pass_on[@]+"${pass_on[@]}"})
  local code=$?
  stop_server
  local left=$?
  [ "$code" -ne 0 ] || [ "$left" -ne 0 ] || return 0
  [ "$left" -eq 0 ] || echo "run_conformance: the server left with code $left after SIGTERM"
  echo "run_conformance: last lines of its log:"
  tail -n 40 "$log"
  return 1
}

failed=no
if [ -n "$plain_features" ] || [ -z "$features" ]; then
  start_server || exit 1
  run_suite plain "$plain_features" --cors-origin="$origin" || failed=yes
fi
if [ -n "$keyed_features" ]; then
  # A second key, so that each of several works.
  start_server --api-key another-key --api-key "$key" || exit 1
  run_suite keyed "$keyed_features" --api-key="$key" --cors-origin="$origin" || failed=yes
fi
[ -z "$table" ] || "$python" tests/conformance_table.py "$scores"/*.json >"$table" || failed=yes
[ "$failed" = no ]
