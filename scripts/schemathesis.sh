#!/usr/bin/env bash
# Runs Schemathesis, which generates requests from the API's description and checks the responses of `tradewind up`: with all its
# checks, on a new broker with its own state folder.
#
#   scripts/schemathesis.sh [OPTION...]    options of `schemathesis run`, such as --include-path /v1/jobs
#
# Exit code 0: no problem was found. MAX_EXAMPLES=50 is the maximum number of requests for an operation in each phase. With TES_OPENAPI=FILE,
# GA4GH's own description of TES 1.1 (openapi/task_execution_service.openapi.yaml of github.com/ga4gh/task-execution-schemas), answers
# of /ga4gh/tes/v1 are checked against it as well.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/clients.sh schemathesis
state=$(mktemp -d)
bin/tradewind up --state "$state" --time-scale 0 >"$state/up.txt" 2>"$state/up.log" &
broker=$!
trap 'kill "$broker" 2>/dev/null; wait "$broker" 2>/dev/null || true; rm -rf "$state"' EXIT
for _ in $(seq 100); do
  [[ -s $state/running.json ]] && break
  sleep 0.1
done
url=$(sed -n 's/.*"url": "\(.*\)",.*/\1/p' "$state/running.json")
# Agents always have the broker's version, so only operations for users and other programs are checked.
.tools/clients/schemathesis/bin/st --config-file clients/schemathesis.toml --no-color run "$url/openapi.json" \
  --header "Authorization: Bearer $(cat "$state/token")" --checks all --continue-on-failure \
  --max-examples "${MAX_EXAMPLES:-50}" --seed "${SEED:-1}" --exclude-tag agent --generation-database none "$@"
if [[ -n ${TES_OPENAPI:-} ]]; then
  # It declares only 200 responses, even for invalid requests, so only the form of responses is checked.
  .tools/clients/schemathesis/bin/st --config-file clients/schemathesis.toml --no-color run "$TES_OPENAPI" \
    --url "$url/ga4gh/tes/v1" --header "Authorization: Bearer $(cat "$state/token")" --continue-on-failure \
    --checks not_a_server_error,content_type_conformance,response_schema_conformance \
    --max-examples "${MAX_EXAMPLES:-50}" --seed "${SEED:-1}" --generation-database none
fi
