#!/usr/bin/env bash
# Installs the pinned release tools into .tools/release. Takes some minutes, once for each version.
#
#   scripts/release-tools.sh [NAME...]    default: all
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p .tools/release
bin=$PWD/.tools/release
for tool in github.com/goreleaser/goreleaser/v2@v2.15.1 github.com/google/ko@v0.18.1 \
  github.com/google/go-containerregistry/cmd/crane@v0.20.7 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0; do
  name=$(basename "${tool%@*}")
  [[ $name == v2 ]] && name=goreleaser
  [[ $# == 0 || " $* " == *" $name "* ]] || continue
  [[ "$(cat "$bin/.$name" 2>/dev/null)" == "$tool" ]] && continue
  echo "building $name ${tool##*@}" >&2
  GOFLAGS='' GOBIN=$bin go install "$tool"
  echo "$tool" >"$bin/.$name"
done
