#!/usr/bin/env bash
# Builds the CNCF's registry of images, on which logins at private registries are tested, into .tools/bin/registry. Go's
# checksum database vouches for its sources. Two that run at once wait for each other.
set -euo pipefail
version=v3.1.2 # github.com/distribution/distribution
tools=${TRADEWIND_TOOLS:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.tools}
mkdir -p "$tools/bin"
exec 9>"$tools/registry.lock"
flock 9
if [[ -x $tools/bin/registry && $(cat "$tools/bin/registry.stamp" 2>/dev/null) == "$version" ]]; then
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
modules=$(go env GOMODCACHE)
GOFLAGS='' CGO_ENABLED=0 GOPATH=$work GOMODCACHE=$modules GOBIN=$work/bin \
  go install -trimpath -ldflags '-s -w' "github.com/distribution/distribution/v3/cmd/registry@$version"
install -m 0755 "$work/bin/registry" "$tools/bin/registry"
echo "$version" >"$tools/bin/registry.stamp"
