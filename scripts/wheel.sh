#!/usr/bin/env bash
# Builds the Python package with the program: one wheel for each platform, which pip installs as the module and the
# commands tradewind and tradewind-agent, and the agents of bought machines.
#
#   scripts/wheel.sh FOLDER [GOOS/GOARCH...]    default: this computer's platform
#
# It needs the Python tools that `scripts/clients.sh python` installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
version=${VERSION:-$(git describe --tags --always --dirty)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
VERSION=$version scripts/agents.sh "$work/agent"
for target in "${@:-$(go env GOOS)/$(go env GOARCH)}"; do
  case $target in # the programs need no library, so any old version of the platform will do
  linux/amd64) platform=manylinux_2_17_x86_64.musllinux_1_1_x86_64 ;;
  linux/arm64) platform=manylinux_2_17_aarch64.musllinux_1_1_aarch64 ;;
  darwin/amd64) platform=macosx_12_0_x86_64 ;;
  darwin/arm64) platform=macosx_12_0_arm64 ;;
  *) echo "wheel: no programs for $target" >&2; exit 2 ;;
  esac
  programs=$work/$target
  mkdir -p "$programs"
  echo "wheel: building the programs for $target" >&2
  export GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0
  go build -trimpath -tags grpcnotrace,lambda.norpc -ldflags "-s -w -X main.version=$version" -o "$programs/" ./cmd/tradewind
  go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$programs/" ./cmd/tradewind-agent
  TRADEWIND_PROGRAMS=$programs TRADEWIND_AGENTS=$work/agent TRADEWIND_PLATFORM=$platform \
    .tools/clients/python/bin/python -m build --no-isolation --wheel --outdir "$out" clients/python >&2
done
