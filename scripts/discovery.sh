#!/usr/bin/env bash
# Writes the part of Google's API descriptions against which internal/emulator/gce checks every request and response, into
# internal/emulator/gce/discovery. They come from PyPI's google-api-python-client, which contains the discovery documents:
# methods, parameters and types are kept, documentation is removed.
#
#   scripts/discovery.sh            write them again
#   scripts/discovery.sh --check    fail if the existing files have another version
set -euo pipefail

CLIENT=2.202.0 # PyPI: google-api-python-client
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
OUT=$HERE/../internal/emulator/gce/discovery

if [[ ${1:-} == --check ]]; then
  [[ "$(cat "$OUT/VERSION")" == "google-api-python-client $CLIENT" ]] && exit 0
  echo "discovery: $OUT has version $(cat "$OUT/VERSION"), want $CLIENT: run scripts/discovery.sh" >&2
  exit 1
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/python" -m pip --disable-pip-version-check download --quiet --no-deps --dest "$dir" \
  "google-api-python-client==$CLIENT"
python3 "$HERE/discovery.py" "$dir"/google_api_python_client-"$CLIENT"-*.whl "$OUT"
echo "google-api-python-client $CLIENT" >"$OUT/VERSION"
