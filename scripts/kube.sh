#!/usr/bin/env bash
# Builds a Kubernetes control plane from Go modules into .tools/kube/VERSION: etcd, kube-apiserver, kube-scheduler,
# kube-controller-manager and kubectl, and KWOK, which simulates the kubelets of a large cluster. The tests of
# internal/cloud/kubernetes run against it and skip if it is missing. Takes about 15 minutes on two processors and
# 5 GB of build cache; quick if all are built. Needs only Go.
#
#   scripts/kube.sh            build what is missing
#   scripts/kube.sh NAME...    build only these, if missing; also available: kubelet, bridge, host-local
#                              and loopback, for a real node (make kube-real)
#   scripts/kube.sh --path     print the folder, even if nothing is built
set -euo pipefail

KUBERNETES=1.36.3 # k8s.io/kubernetes v1.36.3; its staging modules are k8s.io/* v0.36.3
ETCD=3.6.8        # go.etcd.io/etcd/server/v3
KWOK=0.8.0        # sigs.k8s.io/kwok
CNI=1.9.1         # github.com/containernetworking/plugins
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOOLS=${TRADEWIND_TOOLS:-$(dirname "$HERE")/.tools}
DIR=$TOOLS/kube/v$KUBERNETES
STAMP="kubernetes $KUBERNETES, etcd $ETCD"

say() { printf 'kube: %s\n' "$*" >&2; }

case "${1:-}" in
--path) echo "$DIR" && exit ;;
-*) say "unknown option $1" && exit 2 ;;
esac
wanted=("$@")
[[ $# -gt 0 ]] || wanted=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)

mkdir -p "$TOOLS"
exec 9>"$TOOLS/kube.lock"
flock 9
command -v go >/dev/null || { say "Go is not installed" && exit 1; }

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir -p "$DIR"

# Each program is built in a separate module, to keep it out of the product's go.mod. It is moved into place
# when it is complete: running tests may be using the previous one.
build() { # NAME PACKAGE LDFLAGS
  say "building $1"
  CGO_ENABLED=0 nice go build -mod=mod -trimpath -ldflags="-s -w $3" -o "$DIR/.$1" "$2"
  mv -f "$DIR/.$1" "$DIR/$1"
}

module() { # FOLDER MODULE VERSION
  mkdir -p "$work/$1" && cd "$work/$1"
  printf 'module build\ngo 1.26\nrequire %s v%s\n' "$2" "$3" >go.mod
  go get "$2@v$3" >log 2>&1 || { cat log >&2 && exit 1; }
}

# The staging modules in the Kubernetes repository are published with different versions.
kubernetes() {
  mkdir -p "$work/kubernetes" && cd "$work/kubernetes"
  [[ -e go.mod ]] && return
  mod=$(go mod download -json "k8s.io/kubernetes@v$KUBERNETES" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
  {
    printf 'module build\ngo 1.26\nrequire k8s.io/kubernetes v%s\n' "$KUBERNETES"
    sed -n "s#^\s*\(k8s.io/[a-z0-9-]*\) => ./staging.*#replace \1 => \1 v0.${KUBERNETES#1.}#p" "$mod"
  } >go.mod
}

built=
for program in "${wanted[@]}"; do
  [[ -x "$DIR/$program" && "$(cat "$DIR/stamp" 2>/dev/null || echo "$STAMP")" == "$STAMP" ]] && continue
  built=1
  case $program in
  etcd)
    module etcd go.etcd.io/etcd/server/v3 "$ETCD"
    build etcd go.etcd.io/etcd/server/v3 ""
    ;;
  bridge | loopback)
    module plugins github.com/containernetworking/plugins "$CNI"
    build "$program" "github.com/containernetworking/plugins/plugins/main/$program" ""
    ;;
  host-local)
    module plugins github.com/containernetworking/plugins "$CNI"
    build "$program" "github.com/containernetworking/plugins/plugins/ipam/$program" ""
    ;;
  kwok)
    module kwok sigs.k8s.io/kwok "$KWOK"
    build kwok sigs.k8s.io/kwok/cmd/kwok "-X sigs.k8s.io/kwok/pkg/consts.Version=v$KWOK"
    ;;
  *)
    kubernetes
    version="k8s.io/component-base/version"
    build "$program" "k8s.io/kubernetes/cmd/$program" \
      "-X $version.gitVersion=v$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=${KUBERNETES:2:2}"
    ;;
  esac
done
for program in etcd kube-apiserver kube-controller-manager kube-scheduler; do [[ -x "$DIR/$program" ]] || exit 0; done
echo "$STAMP" >"$DIR/stamp"
[[ -z "$built" ]] || say "ready: $DIR"
