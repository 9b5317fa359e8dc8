#!/usr/bin/env bash
# Builds a release of the current commit into dist/release and publishes nothing. It needs the tools that
# `scripts/release-tools.sh` installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.tools/release:$PATH
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
export VERSION
goreleaser release --snapshot --clean
scripts/image.sh dist/release/image
scripts/clients.sh python
scripts/wheel.sh dist/release {linux,darwin}/{amd64,arm64}
(cd dist/release && sha256sum ./*.whl | sed 's, \./, ,' >>checksums.txt)
# Only files are checked and signed, so the image is packed into one.
tar -C dist/release/image -cf dist/release/tradewind_image.tar .
(cd dist/release && sha256sum tradewind_image.tar >>checksums.txt)
go run ./internal/release/provenance -checksums dist/release/checksums.txt -commit "$(git rev-parse HEAD)" \
  -builder "${BUILDER:-local}" >dist/release/provenance.intoto.json
(cd dist/release && sha256sum --quiet -c checksums.txt)
ls -1sh dist/release/*.{tar.gz,zip,deb,rpm,whl,tar,json} dist/release/homebrew/Casks/*.rb dist/release/checksums.txt
