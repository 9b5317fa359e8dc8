#!/usr/bin/env bash
# Plans every SkyPilot file in a folder with bin/tradewind, and counts the files by result: planned, refused when read
# (exit code 2), and without an offer (3). It prints the reason of each file that is not planned, and all warnings.
#
#   scripts/skypilot-files.sh [FOLDER]
set -euo pipefail
folder=${1:-../shared/data/workflows/skypilot}
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
declare -A count
for file in "$folder"/*.y*ml; do
  code=0
  said=$(bin/tradewind plan "$file" --state "$state" 2>&1) || code=$?
  count[$code]=$((${count[$code]:-0} + 1))
  grep '^warning: ' <<<"$said" | sed "s|^warning: |${file##*/}: |" || :
  [ "$code" = 0 ] || grep -m 1 '^error: ' <<<"$said" | sed "s|^error: |${file##*/}: |"
done
echo "planned ${count[0]:-0}, refused when read ${count[2]:-0}, without an offer ${count[3]:-0}"
