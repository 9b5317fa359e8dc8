#!/usr/bin/env bash
# Runs all tests. The tests that need no emulator run first, while the emulators are installed in the background; then the
# tests on emulators, tests of one goroutine without the race detector, the benchmarks' module and the AWS template.
# `make lint` has go vet: here it would compile everything once more.
#
#   scripts/test.sh            everything
#   scripts/test.sh --go       only the tests that need nothing but Go; tests on emulators skip if an emulator is missing
#
# Each part prints its duration.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
# Long computations of one goroutine, in which a race detector finds nothing; the simulator's coroutines leak memory under it.
ONE_GOROUTINE='/internal/sim$|/lab/reproduce$|/windtunnel$|/placement/pack$|/broker/planner$|/optimizer/shared$'
started=$SECONDS

part() { # part NAME COMMAND...: runs it and prints its duration
  local name=$1 from=$SECONDS status=0
  shift
  "$@" || status=$?
  printf '== %s: %d s (%d s in all)\n' "$name" $((SECONDS - from)) $((SECONDS - started)) >&2
  return $status
}

# Packages whose tests start an emulator or another built tool; the others need none.
packages=$($GO list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./...)
tools='internal/emulator( |$)|grant/servers|mounttest|internal/kubetest|internal/rehearsal|sparktest|emrtest'
with=$(grep -E "$tools" <<<"$packages" | cut -d' ' -f1)
without=$(grep -vE "$tools" <<<"$packages" | cut -d' ' -f1)

# Many tests wait for processes, so that more packages than processors run at once.
parallel=$(($(getconf _NPROCESSORS_ONLN) * 2))

installing=
if [[ ${1:-} != --go ]]; then
  mkdir -p .tools
  { nice scripts/emulators.sh && scripts/web-tools.sh; } >.tools/install.log 2>&1 &
  installing=$!
  trap 'kill $installing 2>/dev/null || true' EXIT
fi

failed=0
part "tests that need no emulator" $GO test -race -p $parallel -timeout 20m $(grep -vE "$ONE_GOROUTINE" <<<"$without") || failed=1
part "tests of one goroutine" $GO test -timeout 40m $(grep -E "$ONE_GOROUTINE" <<<"$without") || failed=1
# The packages with a file for Windows. A release builds the whole program for it.
part "Windows" env GOOS=windows $GO build $(git ls-files '*_windows.go' | xargs -n1 dirname | sort -u | sed 's|^|./|') || failed=1
if [[ -n $installing ]]; then
  part "waiting for emulators" wait "$installing" || { cat .tools/install.log >&2; failed=1; }
  trap - EXIT
  grep -v 'is installed' .tools/install.log >&2 || true
fi
part "tests on emulators" $GO test -race -p $parallel -timeout 40m $with || failed=1
part "benchmarks' module" bash -c "cd bench && $GO vet ./... && $GO test ./..." || failed=1
if [[ ${1:-} != --go ]]; then
  if command -v node >/dev/null; then
    part "AWS template" bash -c "cd infra && $GO vet ./... && $GO test -timeout 10m ./..." || failed=1
  else
    echo "skipped the tests of infra/: node is not installed" >&2
  fi
fi
exit $failed
