#!/usr/bin/env bash
# Builds a Kubernetes control plane from Go modules into .tools/kube/VERSION: etcd, kube-apiserver, kube-scheduler,
# kube-controller-manager and kubectl. The tests of pkg/cloud/kubernetes run against it and skip where it is not built.
# About a quarter of an hour on two processors, and 5 GB of build cache; quick when all is there. Needs Go and nothing
# else.
#
#   scripts/kube.sh            build what is missing
#   scripts/kube.sh --path     print the folder, whether it is built or not
set -euo pipefail

KUBERNETES=1.36.3 # k8s.io/kubernetes v1.36.3; what it brings along as k8s.io/* v0.36.3
ETCD=3.6.8        # go.etcd.io/etcd/server/v3
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOOLS=${TRADEWIND_TOOLS:-$(dirname "$HERE")/.tools}
DIR=$TOOLS/kube/v$KUBERNETES
STAMP="kubernetes $KUBERNETES, etcd $ETCD"

say() { printf 'kube: %s\n' "$*" >&2; }

case "${1:-}" in
--path) echo "$DIR" && exit ;;
"") ;;
*) say "there is no option $1" && exit 2 ;;
esac

mkdir -p "$TOOLS"
exec 9>"$TOOLS/kube.lock"
flock 9
[[ "$(cat "$DIR/stamp" 2>/dev/null)" == "$STAMP" ]] && exit
command -v go >/dev/null || { say "Go is not there" && exit 1; }

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir -p "$DIR"

# Each program is built in a module of its own, so that go.mod of the product says nothing of it. What lies beside
# Kubernetes in its repository is published as modules with versions of their own.
say "building etcd $ETCD"
mkdir "$work/etcd" && cd "$work/etcd"
cat >go.mod <<MOD
module build
go 1.26
require go.etcd.io/etcd/server/v3 v$ETCD
MOD
go get "go.etcd.io/etcd/server/v3@v$ETCD" >log 2>&1 || { cat log >&2 && exit 1; }
CGO_ENABLED=0 nice go build -mod=mod -trimpath -ldflags='-s -w' -o "$DIR/etcd" go.etcd.io/etcd/server/v3

say "building Kubernetes $KUBERNETES; this takes a while"
mkdir "$work/kubernetes" && cd "$work/kubernetes"
mod=$(go mod download -json "k8s.io/kubernetes@v$KUBERNETES" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
{
  printf 'module build\ngo 1.26\nrequire k8s.io/kubernetes v%s\n' "$KUBERNETES"
  sed -n "s#^\s*\(k8s.io/[a-z0-9-]*\) => ./staging.*#replace \1 => \1 v0.${KUBERNETES#1.}#p" "$mod"
} >go.mod
version="k8s.io/component-base/version"
for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
  say "building $program"
  CGO_ENABLED=0 nice go build -mod=mod -trimpath \
    -ldflags="-s -w -X $version.gitVersion=v$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=${KUBERNETES:2:2}" \
    -o "$DIR/$program" "k8s.io/kubernetes/cmd/$program"
done
echo "$STAMP" >"$DIR/stamp"
say "ready: $DIR"
