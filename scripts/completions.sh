#!/usr/bin/env bash
# Writes what shells complete of the command line into a folder, named as the shells look for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$1"
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -o "$program" ./cmd/tradewind
"$program" completion bash >"$1/tradewind.bash"
"$program" completion zsh >"$1/_tradewind"
"$program" completion fish >"$1/tradewind.fish"
