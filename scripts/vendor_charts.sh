#!/usr/bin/env bash
# Updates web/static/vendor: uPlot, which draws the dashboard's charts, as one module without comments. The result
# is checked in, so a build needs neither npm nor the network. To update uPlot, change the version here.
set -euo pipefail
version=1.6.32
esbuild=0.25.5
cd "$(dirname "$0")/.."
out=$PWD/web/static/vendor
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
npm install --silent --no-save --no-audit --no-fund --prefix "$dir" "uplot@$version" "esbuild@$esbuild" >/dev/null
{
  echo "// uPlot $version, Copyright (c) Leon Sorokin, MIT: see uplot.LICENSE.txt. Written by scripts/vendor_charts.sh."
  "$dir/node_modules/.bin/esbuild" "$dir/node_modules/uplot/dist/uPlot.esm.js" --minify --format=esm --legal-comments=none
} >"$out/uplot.js"
cp "$dir/node_modules/uplot/dist/uPlot.min.css" "$out/uplot.css"
cp "$dir/node_modules/uplot/LICENSE" "$out/uplot.LICENSE.txt"
