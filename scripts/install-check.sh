#!/usr/bin/env bash
# Builds the packages of a release for this computer and installs each as a user would, into an empty folder: the
# archive, the deb and the rpm (on Linux), the Homebrew cask, the wheel, `go install`, and the image (with podman). Each
# program must run, and packages must have the agents of bought machines. It publishes nothing. It needs the tools of
# `scripts/release-tools.sh goreleaser` and `scripts/clients.sh python`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
os=$(go env GOOS) arch=$(go env GOARCH)
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
export VERSION

# runs NAME FOLDER: the programs in the folder run, and the command line knows its version
runs() {
  "$2/tradewind" version | grep -qF "$VERSION" || { echo "$1: tradewind is not of version $VERSION" >&2; exit 1; }
  "$2/tradewind" plan examples/train-infer.yaml >/dev/null 2>&1 || { echo "$1: tradewind cannot plan" >&2; exit 1; }
  [[ -x $2/tradewind-agent ]] || { echo "$1: there is no tradewind-agent" >&2; exit 1; }
  echo "$1: installed, and it runs"
}

# buys NAME FOLDER: the programs in the folder run and find the agents of bought machines, without --agents
buys() {
  runs "$1" "$2"
  "$2/tradewind" run examples/train-infer.yaml --yes --on lambda --state "${state:-$work/state}" >"$work/log" 2>&1 || true
  grep -q 'no file with an API key' "$work/log" || { echo "$1: no agents for bought machines" >&2; cat "$work/log" >&2; exit 1; }
}

# The configuration of the release, for only this computer.
sed -e "s/^    goos: .*/    goos: [$os]/" -e "s/^    goarch: .*/    goarch: [$arch]/" -e "s,^dist: .*,dist: $work/dist," \
  .goreleaser.yaml >"$work/goreleaser.yaml"
if ! .tools/release/goreleaser release --config "$work/goreleaser.yaml" --snapshot --clean --skip sbom >"$work/log" 2>&1; then
  tail -n 30 "$work/log" >&2
  exit 1
fi
cd "$work/dist"
(sha256sum --quiet -c checksums.txt)

mkdir "$work/archive"
tar -C "$work/archive" -xzf tradewind_*_"${os}_$arch.tar.gz"
cask=homebrew/Casks/tradewind.rb
# The cask names files of the archive.
for file in LICENSE $(sed -n 's/^ *\(binary\|[a-z]*_completion\) "\(.*\)"/\2/p' "$cask"); do
  [[ -s $work/archive/$file ]] || { echo "archive: there is no $file" >&2; exit 1; }
done
deb=$(ls "$PWD"/*.deb 2>/dev/null || true) rpm=$(ls "$PWD"/*.rpm 2>/dev/null || true) archive=$work/archive
cd - >/dev/null
buys archive "$archive"
echo "Homebrew cask: written, and the archive has the files that it names; not installed"
if [[ $os == linux ]]; then
  if command -v dpkg >/dev/null; then
    mkdir -p "$work/deb/var/lib/dpkg"/{info,updates} && touch "$work/deb/var/lib/dpkg/status"
    dpkg --root="$work/deb" --force-depends --force-not-root --force-script-chrootless --log=/dev/null -i "$deb" >"$work/log" 2>&1 ||
      { cat "$work/log" >&2; exit 1; }
    buys deb "$work/deb/usr/bin"
  else
    echo "deb: built; not installed, as there is no dpkg"
  fi
  if command -v rpm2cpio >/dev/null && command -v cpio >/dev/null; then
    mkdir "$work/rpm"
    # Its paths are absolute, and must not be followed. Some rpm2cpio exit with 1 after all files.
    rpm2cpio "$rpm" >"$work/rpm.cpio" || true
    (cd "$work/rpm" && cpio --extract --make-directories --no-absolute-filenames --quiet 2>"$work/log" <"$work/rpm.cpio") ||
      { cat "$work/log" >&2; exit 1; }
    buys rpm "$work/rpm/usr/bin"
  else
    echo "rpm: built; not unpacked, as there is no rpm2cpio and cpio"
  fi
fi

scripts/wheel.sh "$work/wheel" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
python3 -m venv "$work/venv"
if "$work/venv/bin/pip" install -q --disable-pip-version-check "$work"/wheel/*.whl; then
  "$work/venv/bin/python" -c 'import tradewind; tradewind.Job'
  buys wheel "$work/venv/bin"
else
  echo "wheel: built; not installed, as its dependencies cannot be downloaded"
fi

GOBIN=$work/go go install -ldflags "-X main.version=$VERSION" ./cmd/tradewind ./cmd/tradewind-agent
runs 'go install' "$work/go"

if [[ $os == linux ]] && command -v podman >/dev/null; then
  scripts/image.sh "$work/image" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  mkdir "$work/container"
  tar -C "$work/image" -cf "$work/image.tar" .
  id=$(podman load --quiet -i "$work/image.tar")
  id=${id##* }
  printf '#!/usr/bin/env bash\nexec podman run --rm --network none --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 -v "$PWD/examples:/examples:ro" -w / %s "$@"\n' "$id" >"$work/container/tradewind"
  install -m 755 /dev/null "$work/container/tradewind-agent" # the image has no agent for local machines
  chmod +x "$work/container/tradewind"
  (state=/tmp/state buys image "$work/container")
  podman rmi --force "$id" >/dev/null
else
  echo "image: not built, as there is no podman"
fi
