#!/usr/bin/env bash
# Builds a release of the commit that is checked out into dist/release, and publishes nothing. `scripts/release-tools.sh`
# has installed what it takes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.tools/release:$PATH
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
export VERSION
goreleaser release --snapshot --clean
scripts/image.sh dist/release/image
# What is checked and signed is files: the image is one.
tar -C dist/release/image -cf dist/release/tradewind_image.tar .
(cd dist/release && sha256sum tradewind_image.tar >>checksums.txt)
go run ./internal/release/provenance -checksums dist/release/checksums.txt -commit "$(git rev-parse HEAD)" \
  -builder "${BUILDER:-local}" >dist/release/provenance.intoto.json
(cd dist/release && sha256sum --quiet -c checksums.txt)
ls -1sh dist/release/*.{tar.gz,zip,deb,rpm,tar,json} dist/release/homebrew/Casks/*.rb dist/release/checksums.txt
