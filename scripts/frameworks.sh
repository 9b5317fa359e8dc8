#!/bin/sh
# Installs what examples/frameworks runs with: OpenMPI and PyTorch (for processors alone, with gloo) of Debian, and
# Dask and PySpark in an environment of their own below .tools/frameworks. Run as root, or have the Debian packages.
set -eu
cd "$(dirname "$0")/.."
to=.tools/frameworks
need="openmpi-bin python3-torch python3-numpy python3-venv default-jre-headless"
missing=""
for p in $need; do
	dpkg -s "$p" >/dev/null 2>&1 || missing="$missing $p"
done
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # one argument a package
	apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
fi
mkdir -p "$(dirname "$to")"
[ -x "$to/bin/python3" ] || /usr/bin/python3 -m venv --system-site-packages "$to"
"$to/bin/python3" -m pip install -q 'distributed==2024.8.0' 'dask==2024.8.0' 'pyspark==3.5.3' setuptools
echo "frameworks are below $to"
