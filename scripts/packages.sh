#!/usr/bin/env bash
# Installs the Debian packages that some tests need (podman, runc and busybox, for containers; fuse3, for mounts; OpenSSH's
# client and its server of files, for ssh-config), where one may. Elsewhere those tests skip and say so.
set -euo pipefail
lack=
for program in podman runc busybox fusermount3 ssh /usr/lib/openssh/sftp-server; do
  command -v "$program" >/dev/null || lack=yes
done
[[ -n "$lack" ]] || exit 0
if [[ "$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then
  echo "packages: podman, runc, busybox, fuse3 or openssh is not installed: the tests of containers, mounts or ssh skip" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq --no-install-recommends podman runc busybox-static fuse3 \
    openssh-client openssh-sftp-server >/dev/null ||
  echo "packages: could not install podman, runc, busybox, fuse3 and openssh: the tests of containers, mounts and ssh skip" >&2
