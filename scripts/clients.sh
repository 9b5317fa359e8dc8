#!/usr/bin/env bash
# Installs what other people's clients are tested with, each in a Python environment of its own below .tools/clients:
#
#   python         builds, types and tests of clients/python
#   tes            py-tes, the official client of GA4GH TES
#   snakemake      Snakemake with its TES executor
#   schemathesis   requests that the API's description makes up
#   airflow, dagster, prefect
#
#   scripts/clients.sh [NAME...]    install what is missing of these, of all where none is named
#
# Quick when all is there; safe to run twice at once. Exit 3: the package index cannot be reached, nothing is wrong here.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOOLS=$(dirname "$HERE")/.tools
ROOT=$TOOLS/clients
ALL="python tes snakemake schemathesis airflow dagster prefect"
CLIENT="httpx==0.28.1 pydantic==2.14.3"

packages() { # packages NAME: what is installed, pinned
  case $1 in
  python) echo "$CLIENT build==1.6.1 hatchling==1.33.0 datamodel-code-generator==0.89.0 ruff==0.17.6 mypy==2.4.1 pytest==9.2.0 ipython==9.18.1" ;;
  tes) echo "$CLIENT py-tes==1.1.4 pytest==9.2.0" ;;
  snakemake) echo "snakemake==9.27.1 snakemake-executor-plugin-tes==0.1.3 snakemake-storage-plugin-s3==0.3.6" ;;
  schemathesis) echo "schemathesis==4.32.5" ;;
  airflow) echo "$CLIENT apache-airflow==3.3.2 pytest==9.2.0" ;;
  dagster) echo "$CLIENT dagster==1.13.29 pytest==9.2.0" ;;
  prefect) echo "pydantic==2.14.3 prefect==3.6.10 fastapi==0.121.0 pytest==9.2.0" ;;
  *) return 1 ;;
  esac
}

say() { printf 'clients: %s\n' "$*" >&2; }

install() { # install NAME
  local name=$1 dir=$ROOT/$1 want
  if ! want=$(packages "$name"); then
    say "there is no $name, only: $ALL"
    return 2
  fi
  # The stamp is written last: an installation that was cut off has none.
  if [[ "$(cat "$dir/stamp" 2>/dev/null)" == "$want" ]]; then return 0; fi
  say "installing $want"
  rm -rf "$dir"
  python3 -m venv "$dir"
  # shellcheck disable=SC2086 # one argument a package
  if ! "$dir/bin/pip" install -q --disable-pip-version-check --prefer-binary --retries 1 $want >"$ROOT/$name.log" 2>&1; then
    tail -n 5 "$ROOT/$name.log" >&2
    if grep -q 'connection error\|Failed to establish\|Temporary failure' "$ROOT/$name.log"; then
      say "the package index cannot be reached: $name is not installed"
      return 3
    fi
    return 1
  fi
  printf '%s\n' "$want" >"$dir/stamp"
}

mkdir -p "$ROOT"
for name in ${@:-$ALL}; do
  ( # one lock an environment, so that quick ones do not wait for large ones
    flock 9
    install "$name"
  ) 9>"$ROOT/$name.lock"
done
