#!/usr/bin/env bash
# Builds the agent for bought machines, FOLDER/ARCH/tradewind-agent.
#
#   scripts/agents.sh FOLDER [ARCH...]    default: amd64 arm64
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$1
shift
[[ $# -gt 0 ]] || set -- amd64 arm64
version=${VERSION:-$(git describe --tags --always --dirty)}
for arch in "$@"; do
  GOOS=linux GOARCH=$arch CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$version" \
    -o "$folder/$arch/tradewind-agent" ./cmd/tradewind-agent
done
