#!/usr/bin/env bash
# Builds the CNCF's image registry into .tools/bin/registry, for tests of logins at private registries. It has only
# the file system driver and password files, because its cloud drivers take ten minutes to compile. Go's checksum
# database verifies its sources. Concurrent runs wait for each other.
set -euo pipefail
version=v3.1.2 # github.com/distribution/distribution
stamp="$version, folder and htpasswd"
tools=${TRADEWIND_TOOLS:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.tools}
mkdir -p "$tools/bin"
exec 9>"$tools/registry.lock"
flock 9
if [[ -x $tools/bin/registry && $(cat "$tools/bin/registry.stamp" 2>/dev/null) == "$stamp" ]]; then
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >main.go <<'GO'
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if registry.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}
GO
export GOFLAGS='' GOWORK=off CGO_ENABLED=0
go mod init registry
go get "github.com/distribution/distribution/v3@$version"
go mod tidy
go build -trimpath -ldflags '-s -w' -o registry .
install -m 0755 registry "$tools/bin/registry"
echo "$stamp" >"$tools/bin/registry.stamp"
