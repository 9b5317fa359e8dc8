#!/usr/bin/env bash
# Starts a broker and runs Lighthouse on each page of its dashboard: scores for accessibility, best practices
# and performance, out of 100. Fails if one of the first two is below 95; the third depends on the load of this computer.
# Needs npm and Chromium, and bin/tradewind; Lighthouse is installed below .tools/web.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/web-tools.sh --lighthouse
LIGHTHOUSE=.tools/web/lighthouse/node_modules/.bin/lighthouse
CHROME=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
[[ -x $LIGHTHOUSE && -n $CHROME ]] || { echo "lighthouse: npm or Chromium is missing" >&2; exit 1; }
dir=$(mktemp -d)
bin/tradewind up --state "$dir/state" --output json >"$dir/up.json" 2>"$dir/up.log" &
broker=$!
trap 'kill "$broker" 2>/dev/null; wait "$broker" 2>/dev/null || true; rm -rf "$dir"' EXIT
for _ in $(seq 100); do
  at=$(node -p "JSON.parse(require('fs').readFileSync('$dir/up.json', 'utf8')).dashboard" 2>/dev/null) && break
  kill -0 "$broker" || { cat "$dir/up.log" >&2; exit 1; }
  sleep 0.2
done
url=${at%%\?*}
cookie=$(curl -s -o /dev/null -D - "$at" | sed -n 's/^[Ss]et-[Cc]ookie: \([^;]*\).*/\1/p')
echo "{\"Cookie\": \"$cookie\"}" >"$dir/headers.json"
job=$(bin/tradewind submit examples/train-infer.yaml --state "$dir/state" --output json | node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).id")
# look writes Lighthouse's report of a page. It retries after an error, as Lighthouse recommends for traces that
# lack the start of a page (NO_NAVSTART).
look() {
  CHROME_PATH=$CHROME "$LIGHTHOUSE" "$url#/$1" --quiet --output json --output-path "$dir/report.json" --extra-headers "$dir/headers.json" \
    --only-categories accessibility,best-practices,performance --preset desktop --throttling-method provided \
    --chrome-flags="--headless=new --no-sandbox --disable-gpu" 2>>"$dir/lighthouse.log"
}
failed=0
for page in "" plan capacity markets clouds "jobs/$job" "jobs/$job/timeline" "jobs/$job/money" "jobs/$job/story" "jobs/$job/logs"; do
  look "$page" || look "$page" || { tail -5 "$dir/lighthouse.log" >&2; exit 1; }
  node -e '
    const r = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
    const of = (c) => Math.round(100 * r.categories[c].score);
    console.log(`${(process.argv[2] || "jobs").padEnd(36)} accessibility ${of("accessibility")}, best practices ${of("best-practices")}, performance ${of("performance")}`);
    for (const a of Object.values(r.audits)) if (a.score !== null && a.score < 1 && a.scoreDisplayMode === "binary") console.log(`    ${a.id}: ${a.title}`);
    process.exit(Math.min(of("accessibility"), of("best-practices")) < 95 ? 1 : 0);' "$dir/report.json" "$page" || failed=1
done
exit "$failed"
