#!/usr/bin/env bash
# Builds rclone from source, at the version pinned in internal/agent/mount, with only its mount command and the stores that
# Tradewind mounts (a third of rclone). Go's checksum database verifies the sources; the same toolchain builds the same bytes.
#
#   scripts/rclone.sh ARCH FILE    for Linux on amd64 or arm64
#   scripts/rclone.sh --version    the pinned version
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's/^const Version = "\(v[0-9.]*\)"$/\1/p' "$here/../internal/agent/mount/program.go")
[[ -n $version ]] || { echo "rclone: internal/agent/mount names no version" >&2; exit 1; }
if [[ ${1:-} == --version ]]; then
  echo "$version"
  exit 0
fi
[[ $# == 2 ]] || { echo "usage: rclone.sh ARCH FILE | --version" >&2; exit 2; }
mkdir -p "$(dirname "$2")"
out=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/main.go" <<'GO'
// Command rclone has rclone's mount command and the stores that Tradewind mounts.
package main

import (
	_ "github.com/rclone/rclone/backend/azureblob"
	_ "github.com/rclone/rclone/backend/googlecloudstorage"
	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/s3"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/mount"
	_ "github.com/rclone/rclone/cmd/version"
)

func main() { cmd.Main() }
GO
cd "$work"
export GOFLAGS=-mod=mod GOOS=linux GOARCH=$1 CGO_ENABLED=0
go mod init tradewind.local/rclone 2>/dev/null
go mod edit -require "github.com/rclone/rclone@$version"
go mod tidy -e >/dev/null 2>&1
go build -trimpath -ldflags '-s -w' -o "$out" .
