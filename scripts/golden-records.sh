#!/usr/bin/env bash
# Writes the golden records of a release: what its broker in one process has written after some jobs, a failure, waiting
# tasks and a kill. A test reads them with the types of the present version.
#
#   scripts/golden-records.sh 0.2.0          the commit that CHANGELOG.md names
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
release=${1:?usage: golden-records.sh RELEASE}
commit=$(awk -v r="## $release" 'index($0, r) == 1 { found = 1 } found && /^Commit:/ { gsub(/[^0-9a-f]/, "", $2); print $2; exit }' CHANGELOG.md)
[[ -n $commit ]] || { echo "golden-records: CHANGELOG.md names no commit of $release" >&2; exit 2; }
work=$(mktemp -d)
broker=
trap '[[ -z $broker ]] || kill -KILL $broker 2>/dev/null || true; git worktree remove --force "$work/source" 2>/dev/null || true; pkill -f "$work" || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/source" "$commit"
(cd "$work/source" && $GO build -trimpath -o "$work/tradewind" ./cmd/tradewind)

state=$work/state
tw() { "$work/tradewind" "$@" --state "$state"; }
"$work/tradewind" up --state "$state" --time-scale 0.01 --seed 7 >"$work/log" 2>&1 &
broker=$!
for _ in $(seq 100); do tw status >/dev/null 2>&1 && break; sleep 0.2; done
job() { # job NAME TASKS...: submits a job
  printf 'apiVersion: tradewind/v1\nname: %s\nbudget: 20\n%s\n' "$1" "$2" >"$work/$1.yaml"
  tw submit "$work/$1.yaml" --queue lab ${yes:-} >/dev/null
}
tw submit --help | grep -q -- --yes && yes=--yes
tw queue set lab --max-running 2 --max usd-per-month=40 >/dev/null
job chain 'tasks:
  a: {run: "echo a >$TRADEWIND_OUTPUT/a", outputs: [{name: o, size: 1MiB}], time: 5m, checkpoint: {every: 1m, path: ck}}
  b: {run: "true", after: [a], time: 5m}'
job fails 'tasks: {a: {run: exit 3, time: 1m}}'
for _ in $(seq 200); do
  [[ $(tw status -o json | jq '[.jobs[] | select(.state == "succeeded" or .state == "failed")] | length') == 2 ]] && break
  sleep 0.3
done
job runs 'tasks:
  a: {run: sleep 1000, time: 10h}
  b: {run: sleep 1000, time: 10h}
  c: {run: sleep 1000, time: 10h}'
for _ in $(seq 200); do
  [[ $(tw status last -o json | jq '[.taskList[] | select(.state == "running")] | length') == 2 ]] && break
  sleep 0.3
done
kill -KILL $broker
wait $broker 2>/dev/null || true
broker=
into=internal/broker/recordcache/testdata/releases
mkdir -p $into
$GO run ./internal/release/records "$state" >"$into/$release.jsonl"
wc -l "$into/$release.jsonl"
