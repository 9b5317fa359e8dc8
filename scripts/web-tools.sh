#!/usr/bin/env bash
# Installs axe-core, with which the dashboard tests check accessibility, below .tools/web. With --lighthouse
# it installs Lighthouse, too, for scripts/lighthouse.sh. Neither is shipped.
#
# Quick if all are installed. If npm is missing or its registry cannot be reached, those tests skip with a message.
set -euo pipefail
AXE=axe-core@4.10.3
LIGHTHOUSE=lighthouse@12.6.1
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")/.tools/web

install() { # install FOLDER PACKAGE
  [[ -f $ROOT/$1/.is && $(<"$ROOT/$1/.is") == "$2" ]] && return
  if ! command -v npm >/dev/null; then
    echo "web-tools: npm is not installed: the tests that need $2 skip" >&2
    return
  fi
  mkdir -p "$ROOT/$1"
  if npm install --silent --no-save --no-audit --no-fund --prefix "$ROOT/$1" "$2" >/dev/null; then
    echo "$2" >"$ROOT/$1/.is"
  else
    echo "web-tools: could not install $2: the tests that need it skip" >&2
  fi
}

install axe "$AXE"
if [[ ${1:-} == --lighthouse ]]; then install lighthouse "$LIGHTHOUSE"; fi
