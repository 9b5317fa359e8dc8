#!/usr/bin/env bash
# Builds a container image with real tools for the tests of workflow engines, without a registry: Debian with bwa, samtools,
# bcftools, Python, and the Snakemake of scripts/clients.sh with its storage plugin for S3.
#
#   scripts/genomics-image.sh    build localhost/tradewind-genomics:1 if podman does not have it yet, and print its name
#
# The file system is kept under .tools/images. Exit code 3: a requirement that it names is missing here (not an error).
set -euo pipefail

IMAGE=localhost/tradewind-genomics:1
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
KEPT=$(dirname "$HERE")/.tools/images
MIRROR=http://deb.debian.org/debian
DEBIAN=bookworm
PACKAGES=ca-certificates,python3,python3-pip,python-is-python3,bwa,samtools,bcftools
PYTHON="snakemake==9.27.1 snakemake-storage-plugin-s3==0.3.6"

say() { printf 'genomics-image: %s\n' "$*" >&2; }
lack() { say "$*"; exit 3; }

command -v podman >/dev/null || lack "podman is not installed: scripts/packages.sh installs it"
want="$DEBIAN $PACKAGES $PYTHON"
mkdir -p "$KEPT"
exec 9>"$KEPT/genomics.lock"
flock 9

if [[ "$(cat "$KEPT/genomics.stamp" 2>/dev/null)" != "$want" ]]; then
  [[ "$(id -u)" == 0 ]] || lack "debootstrap needs to be root"
  if ! command -v debootstrap >/dev/null; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap \
      >"$KEPT/genomics.log" 2>&1 ||
      lack "debootstrap is not installed, and installing it failed: $(tail -n 1 "$KEPT/genomics.log")"
  fi
  work=$(mktemp -d "$KEPT/genomics.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  say "installing Debian with bwa, samtools and bcftools, then $PYTHON: takes some minutes, only once"
  debootstrap --variant=minbase --include="$PACKAGES" "$DEBIAN" "$work/root" "$MIRROR" >"$KEPT/genomics.log" 2>&1 ||
    lack "Debian's packages cannot be installed: $(tail -n 1 "$KEPT/genomics.log")"
  # The image uses this machine's access to the package index: the same settings, names and certificates.
  cp /etc/resolv.conf "$work/root/etc/resolv.conf"
  if [[ -f /etc/ssl/certs/ca-certificates.crt ]]; then
    cp -L /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/ca-certificates.crt"
  fi
  if [[ -f /etc/pip.conf ]]; then cp /etc/pip.conf "$work/root/etc/pip.conf"; fi
  # shellcheck disable=SC2086 # one argument for each package
  chroot "$work/root" env -u PIP_FIND_LINKS python3 -m pip install -q --break-system-packages --root-user-action=ignore \
    --no-cache-dir --prefer-binary $PYTHON >>"$KEPT/genomics.log" 2>&1 ||
    lack "the package index cannot be reached: $(tail -n 1 "$KEPT/genomics.log")"
  # A Snakemake job reinstalls its storage plugin when it starts: it finds a copy here and needs no index.
  chroot "$work/root" env -u PIP_FIND_LINKS python3 -m pip download -q --no-cache-dir --no-deps -d /wheels \
    "snakemake-storage-plugin-s3==0.3.6" >>"$KEPT/genomics.log" 2>&1
  printf '[global]\nno-index = true\nfind-links = /wheels\nno-deps = true\ndisable-pip-version-check = true\n' \
    >"$work/root/etc/pip.conf"
  rm -rf "$work"/root/var/cache/apt "$work"/root/var/lib/apt/lists "$work"/root/usr/share/{doc,man,locale}
  rm -rf "$work/root/dev" && mkdir "$work/root/dev"
  tar -C "$work/root" -cf "$work/genomics.tar" .
  mv "$work/genomics.tar" "$KEPT/genomics.tar"
  printf '%s\n' "$want" >"$KEPT/genomics.stamp"
  podman rmi -f "$IMAGE" >/dev/null 2>&1 || true
fi
podman image exists "$IMAGE" || podman import -q "$KEPT/genomics.tar" "$IMAGE" >/dev/null
printf '%s\n' "$IMAGE"
