#!/usr/bin/env bash
# Writes the shell completion files into a folder, with the file names that the shells expect.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$1"
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -o "$program" ./cmd/tradewind
"$program" completion bash >"$1/tradewind.bash"
"$program" completion zsh >"$1/_tradewind"
"$program" completion fish >"$1/tradewind.fish"
