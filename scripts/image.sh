#!/usr/bin/env bash
# Builds the broker's image for amd64 and arm64 with ko: the program, the agents for bought machines and CA certificates,
# run as an unprivileged user. `tradewind deploy kubernetes --image` and the chart run it, and a release has it.
#
#   scripts/image.sh FOLDER                write an OCI layout, push nothing
#   scripts/image.sh --push REGISTRY/NAME  push to a registry
#
# It needs Go, and builds ko and crane once. VERSION is the tag of a pushed image; the default is that of the commit.
# BASE_IMAGE is the base image. If its registry does not answer, a snapshot image is built with only this machine's
# certificates as its base.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.tools/release:$PATH
base=${BASE_IMAGE:-gcr.io/distroless/static-debian12:nonroot}
version=${VERSION:-$(git describe --tags --always --dirty)}
scripts/release-tools.sh ko crane
work=$(mktemp -d)
registry=
data=cmd/tradewind/kodata # ko adds its files to the image, below $KO_DATA_PATH
trap '[[ -z $registry ]] || kill "$registry"; rm -rf "$work" "$data"' EXIT

# certificates makes a base image in a local registry that runs as long as this script.
certificates() {
  local bundle=/etc/ssl/certs/ca-certificates.crt arch refs=()
  [[ -r $bundle ]] || { echo "image: neither $base nor $bundle is available" >&2; exit 1; }
  crane registry serve --address 127.0.0.1:0 >"$work/registry.log" 2>&1 &
  registry=$!
  local address=
  for _ in {1..100}; do
    address=$(sed -n 's/.*serving on port \([0-9]*\)$/127.0.0.1:\1/p' "$work/registry.log")
    [[ -n $address ]] && break
    sleep 0.1
  done
  [[ -n $address ]] || { cat "$work/registry.log" >&2; exit 1; }
  tar -C / -chf "$work/base.tar" "${bundle#/}"
  for arch in amd64 arm64; do
    crane append --oci-empty-base -f "$work/base.tar" -t "$address/base:$arch" >/dev/null
    crane mutate --set-platform "linux/$arch" -u 65532:65532 -t "$address/base:$arch" "$address/base:$arch" >/dev/null
    refs+=(-m "$address/base:$arch")
  done
  crane index append "${refs[@]}" -t "$address/base:all" 2>/dev/null >/dev/null
  base=$address/base:all
}

cat >"$work/.ko.yaml" <<CONFIG
builds:
  - main: ./cmd/tradewind
    env: [CGO_ENABLED=0]
    flags: [-trimpath, "-tags=grpcnotrace,lambda.norpc"]
    ldflags: ["-s -w -X main.version=$version"]
CONFIG
rm -rf "$data"
VERSION=$version scripts/agents.sh "$data/agent"
epoch=$(git log -1 --format=%ct)
build=(env KO_CONFIG_PATH="$work" SOURCE_DATE_EPOCH="$epoch" KO_DATA_DATE_EPOCH="$epoch" ko build --bare --platform=linux/amd64,linux/arm64
  --sbom=spdx --image-label org.opencontainers.image.source=https://github.com/tradewind-broker/tradewind)
if [[ ${1:-} == --push && $# == 2 ]]; then
  KO_DOCKER_REPO=$2 KO_DEFAULTBASEIMAGE=$base "${build[@]}" --tags "$version,latest" ./cmd/tradewind
elif [[ $# == 1 && $1 != -* ]]; then
  if ! timeout 20 crane manifest "$base" >/dev/null 2>&1; then
    echo "image: the registry of $base does not answer: building with this machine's certificates" >&2
    certificates
  fi
  rm -rf "$1"
  mkdir -p "$1"
  KO_DOCKER_REPO=tradewind.local KO_DEFAULTBASEIMAGE=$base "${build[@]}" --push=false --oci-layout-path "$1" ./cmd/tradewind
else
  echo "usage: image.sh FOLDER | --push REGISTRY/NAME" >&2
  exit 2
fi
