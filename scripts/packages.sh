#!/usr/bin/env bash
# Installs the Debian packages that some tests need, if permitted (podman, runc and busybox for containers; fuse3 and fuse-overlayfs for mounts;
# OpenSSH's client and sftp-server for ssh-config; Chromium for the dashboard). Without them, those tests skip with a message.
set -euo pipefail
lack=
for program in podman runc busybox fusermount3 fuse-overlayfs ssh /usr/lib/openssh/sftp-server; do
  command -v "$program" >/dev/null || lack=yes
done
for browser in chromium chromium-browser google-chrome google-chrome-stable chrome none; do
  if command -v "$browser" >/dev/null; then break; fi
done
[[ "$browser" != none ]] || lack=yes
[[ -n "$lack" ]] || exit 0
if [[ "$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then
  echo "packages: podman, runc, busybox, fuse3, fuse-overlayfs, openssh or chromium is not installed: the tests of containers, mounts, ssh or the" \
    "dashboard skip" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq --no-install-recommends podman runc busybox-static fuse3 fuse-overlayfs \
    openssh-client openssh-sftp-server chromium >/dev/null ||
  echo "packages: could not install podman, runc, busybox, fuse3, fuse-overlayfs, openssh and chromium: the tests of containers, mounts," \
    "ssh and the dashboard skip" >&2
