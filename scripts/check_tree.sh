#!/usr/bin/env bash
# What is tracked: small enough, nothing that belongs to one machine, a README for each module.
set -euo pipefail
cd "$(dirname "$0")/.."
limit_mb=46
problems=0
problem() { echo "check_tree: $*"; problems=$((problems + 1)); }

bytes=$(git ls-files -z | xargs -0 stat -c %s 2>/dev/null | awk '{sum += $1} END {print sum + 0}')
[ "$bytes" -le $((limit_mb * 1000000)) ] || problem "tracked files are $bytes bytes; the limit is $limit_mb MB"

# A path of one machine in a file is of no use on another.
here=$(pwd)
above=$(dirname "$here")
# Folders that every machine has, and that texts may well name, say nothing.
case "$above" in / | /tmp | /var | /var/tmp | /home | /root | /opt | /srv | /usr) above=$here ;; esac
if found=$(git grep -nIF -e "$here/" -e "$above/" -- .); then
  problem "paths of this machine:"$'\n'"$found"
fi
for folder in src/*/; do
  [ ! -f "$folder/CMakeLists.txt" ] || [ -f "$folder/README.md" ] || problem "$folder has no README.md"
done
for script in scripts/*.sh scripts/*.py tests/*.sh .ci/run; do
  [ ! -f "$script" ] || [ "$script" = scripts/steps.sh ] || [ "$script" = scripts/source_graph.py ] ||
    [ -x "$script" ] || problem "$script is not executable"
done
echo "check_tree: $bytes bytes tracked, $problems problems"
[ "$problems" -eq 0 ]
