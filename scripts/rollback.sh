#!/usr/bin/env bash
# Two versions of the program take turns on one state folder while a job of many short tasks runs: each stops the broker of
# the other, by SIGTERM or SIGKILL, and goes on with its records. In the end every task must have succeeded once, and the
# queue's spending must be that of its jobs.
#
#   scripts/rollback.sh                       the commit of the last release (CHANGELOG.md) and this tree, 10 switches
#   OLD=COMMIT SWITCHES=50 scripts/rollback.sh
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
OLD=${OLD:-$(sed -n 's/^Commit: `\([0-9a-f]*\)`.*/\1/p' CHANGELOG.md | head -1)}
SWITCHES=${SWITCHES:-10}
TASKS=${TASKS:-$((SWITCHES * 8))}
[[ -n $OLD ]] || { echo "rollback: CHANGELOG.md names no commit of a release; set OLD=COMMIT" >&2; exit 2; }

work=$(mktemp -d)
built=$PWD/.tools/rollback/$OLD
broker=
clean() {
  [[ -z $broker ]] || kill -KILL "$broker" 2>/dev/null || true
  git worktree remove --force "$work/source" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

if [[ ! -x $built/tradewind ]]; then
  echo "rollback: building $OLD"
  git worktree add --quiet --detach "$work/source" "$OLD"
  mkdir -p "$built"
  (cd "$work/source" && $GO build -trimpath -o "$built/tradewind" ./cmd/tradewind)
fi
echo "rollback: building this tree"
$GO build -trimpath -o "$work/new" ./cmd/tradewind
cp "$built/tradewind" "$work/old"

state=$work/state
start() { # start VERSION: its broker, until it answers
  "$work/$1" up --state "$state" >>"$work/up.log" 2>&1 &
  broker=$!
  for _ in $(seq 300); do
    "$work/$1" status --state "$state" -o json >/dev/null 2>&1 && return
    kill -0 "$broker" 2>/dev/null || break
    sleep 0.2
  done
  echo "rollback: the broker of the $1 version does not answer" >&2
  tail -20 "$work/up.log" >&2
  exit 1
}
stop() { # stop SIGNAL
  kill -"$1" "$broker" 2>/dev/null || true
  wait "$broker" 2>/dev/null || true
  broker=
}
# spent VERSION: what the queue has spent in this month
spent() { "$work/$1" queue list --state "$state" -o json | jq '[.queues[] | select(.name == "lab") | .month.spentUSD // 0] | add // 0'; }

cat >"$work/job.yaml" <<YAML
apiVersion: tradewind/v1
name: turns
budget: 50
tasks:
  short:
    array: $TASKS
    maxParallel: 4
    run: sleep 0.5
    time: 1m
    resources: {cpus: 1}
  last:
    run: echo all members have ended
    after: [short]
YAML

start new
"$work/new" queue set lab --max-running 4 --max usd-per-month=40 --state "$state" >/dev/null
"$work/new" submit "$work/job.yaml" --queue lab --yes --state "$state" >/dev/null
before=0 version=new
for i in $(seq "$SWITCHES"); do
  sleep 2
  stop "$([[ $((i % 3)) == 0 ]] && echo KILL || echo TERM)"
  version=$([[ $version == new ]] && echo old || echo new)
  start $version
  now=$(spent $version)
  echo "rollback: switch $i: the $version version runs, the queue has spent $now USD"
  jq -en "$now >= $before" >/dev/null || { echo "rollback: the queue had spent $before USD" >&2; exit 1; }
  before=$now
done
for _ in $(seq 600); do
  state_of=$("$work/$version" status last --state "$state" -o json | jq -r .state)
  [[ $state_of == running || $state_of == planned || $state_of == pending || $state_of == queued ]] || break
  sleep 1
done
"$work/$version" status last --state "$state" -o json >"$work/job.json"
jq -e '.state == "succeeded" and ([.taskList[] | select(.state != "succeeded")] | length) == 0' "$work/job.json" >/dev/null ||
  { echo "rollback: the job has not succeeded" >&2; jq '{state, reason, usd: .spentUSD}' "$work/job.json" >&2; exit 1; }
echo "rollback: $(jq '.taskList | length' "$work/job.json") tasks succeeded over $SWITCHES switches; the job cost $(jq .spentUSD "$work/job.json") USD, the queue has spent $(spent $version) USD"
jq -en "$(spent $version) >= 0.999 * $(jq .spentUSD "$work/job.json")" >/dev/null ||
  { echo "rollback: the queue has lost spending" >&2; exit 1; }
stop TERM
