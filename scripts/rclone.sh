#!/usr/bin/env bash
# Builds rclone, which mounts, from its sources at the version that is pinned in pkg/agent/mount. Go's checksum database
# vouches for the sources; the same toolchain makes the same bytes of them.
#
#   scripts/rclone.sh ARCH FILE    for Linux on amd64 or arm64
#   scripts/rclone.sh --version    the pinned version
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's/^const Version = "\(v[0-9.]*\)"$/\1/p' "$here/../pkg/agent/mount/program.go")
[[ -n $version ]] || { echo "rclone: pkg/agent/mount names no version" >&2; exit 1; }
if [[ ${1:-} == --version ]]; then
  echo "$version"
  exit 0
fi
[[ $# == 2 ]] || { echo "usage: rclone.sh ARCH FILE | --version" >&2; exit 2; }
mkdir -p "$(dirname "$2")"
out=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# go install puts what is built for another architecture into a folder of its own below GOPATH; the modules stay where
# they are.
modules=$(go env GOMODCACHE)
GOFLAGS='' GOOS=linux GOARCH=$1 CGO_ENABLED=0 GOPATH=$work GOMODCACHE=$modules GOBIN='' \
  go install -trimpath -ldflags '-s -w' "github.com/rclone/rclone@$version"
built=$(find "$work/bin" -type f -name rclone)
install -m 0755 "$built" "$out"
