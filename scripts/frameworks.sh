#!/bin/sh
# Installs the frameworks of the examples: OpenMPI, PyTorch (CPU only, with gloo), bwa, samtools and bcftools from
# Debian; Dask, PySpark, Ray and scikit-learn in an environment below .tools/frameworks; and TensorFlow in another one, because it
# needs another NumPy. Run it as root, or install the Debian packages before. Concurrent runs wait for each other.
set -eu
cd "$(dirname "$0")/.."
to=.tools/frameworks
need="openmpi-bin python3-torch python3-numpy python3-venv default-jre-headless bwa samtools bcftools"
missing=""
for p in $need; do
	dpkg -s "$p" >/dev/null 2>&1 || missing="$missing $p"
done
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # one argument for each package
	apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
fi
mkdir -p "$(dirname "$to")"
exec 9>"$to.lock" && flock 9
[ -x "$to/bin/python3" ] || /usr/bin/python3 -m venv --system-site-packages "$to"
"$to/bin/python3" -m pip install -q 'distributed==2024.8.0' 'dask==2024.8.0' 'pyspark==3.5.3' 'ray==2.9.3' 'scikit-learn==1.5.2' 'scipy==1.11.4' 'numpy<2' setuptools
[ -x "$to/tensorflow/bin/python3" ] || /usr/bin/python3 -m venv "$to/tensorflow"
"$to/tensorflow/bin/python3" -m pip install -q 'tensorflow-cpu==2.18.0'
echo "frameworks are below $to"
