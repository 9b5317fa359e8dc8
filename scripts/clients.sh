#!/usr/bin/env bash
# Installs third-party clients for the tests, each in a separate Python environment below .tools/clients:
#
#   python         builds, types and tests of clients/python
#   tes            py-tes, the official client of GA4GH TES
#   snakemake      Snakemake with its TES executor
#   cwl            cwl-tes, the Common Workflow Language on GA4GH TES
#   nextflow       Nextflow, with Maven, and py-tes; Nextflow downloads its TES executor plugin itself
#   schemathesis   generated requests from the API's description
#   airflow, dagster, prefect
#
#   scripts/clients.sh [NAME...]    install the named clients (default: all) that are missing
#
# Quick if all are installed; safe to run twice at once. Exit code 3: a client that it names is not available here (not an error).
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOOLS=$(dirname "$HERE")/.tools
ROOT=$TOOLS/clients
ALL="python tes snakemake cwl nextflow schemathesis airflow dagster prefect"
NEXTFLOW=24.10.0 # io.nextflow:nextflow: the newest version that is complete on Maven Central
CLIENT="httpx==0.28.1 pydantic==2.14.3"

packages() { # packages NAME: prints the pinned packages
  case $1 in
  python) echo "$CLIENT build==1.6.1 hatchling==1.33.0 datamodel-code-generator==0.89.0 ruff==0.17.6 mypy==2.4.1 pytest==9.2.0 ipython==9.18.1" ;;
  tes | nextflow) echo "$CLIENT py-tes==1.1.4 pytest==9.2.0" ;;
  snakemake) echo "$CLIENT snakemake==9.27.1 snakemake-executor-plugin-tes==0.1.3 snakemake-storage-plugin-s3==0.3.6 pytest==9.2.0" ;;
  cwl) # from 2019: its dependencies must be pinned, and some can no longer be built
    echo "--no-deps cwl-tes==0.3.0 cwltool==1.0.20191022103248 schema-salad==4.5.20191023134839 setuptools==69.5.1" \
      "bagit==1.9.0 CacheControl==0.14.4 coloredlogs==15.0.1 future==1.0.0 humanfriendly==10.0 isodate==0.6.1" \
      "lockfile==0.12.2 filelock==4.2.12 lxml==6.1.3 mistune==0.8.4 msgpack==1.2.4 mypy_extensions==1.2.0 networkx==3.6.1" \
      "pathlib2==2.3.7.post1 prov==1.5.1 psutil==7.2.2 py-tes==1.1.4 PyJWT==2.15.1 pyparsing==3.3.3" \
      "python-dateutil==4.0.0 rdflib==6.3.2 rdflib-jsonld==0.6.2 requests==2.34.2 charset-normalizer==3.5.2" \
      "urllib3==2.8.0 ruamel.yaml==0.16.13 shellescape==3.8.1 six==1.17.0 attrs==26.1.0" \
      "$CLIENT annotated-types==0.8.0 anyio==4.16.0 h11==0.16.0 httpcore==1.0.9 pydantic_core==2.50.4" \
      "typing-inspection==0.4.5 typing_extensions==4.16.0 certifi==2026.10.19.post1 idna==3.20" \
      "pytest==9.2.0 iniconfig==2.3.1 packaging==26.3 pluggy==1.7.0 Pygments==2.21.0" ;;
  schemathesis) echo "schemathesis==4.32.5" ;;
  airflow) echo "$CLIENT apache-airflow==3.3.2 pytest==9.2.0" ;;
  dagster) echo "$CLIENT dagster==1.13.29 pytest==9.2.0" ;;
  prefect) echo "pydantic==2.14.3 prefect==3.6.10 fastapi==0.121.0 pytest==9.2.0" ;;
  *) return 1 ;;
  esac
}

say() { printf 'clients: %s\n' "$*" >&2; }

jars() { # jars DIR: Nextflow and its dependencies, into DIR/lib
  local dir=$1 p
  for p in java mvn; do
    if ! command -v "$p" >/dev/null; then
      say "Nextflow needs $p: scripts/packages.sh installs it"
      return 3
    fi
  done
  say "installing Nextflow $NEXTFLOW"
  cat >"$dir/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tradewind</groupId><artifactId>nextflow</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>io.nextflow</groupId><artifactId>nextflow</artifactId><version>$NEXTFLOW</version></dependency>
  </dependencies>
</project>
POM
  if ! mvn --batch-mode --file "$dir/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
    -DoutputDirectory="$dir/lib" -DincludeScope=runtime >"$ROOT/nextflow.log" 2>&1; then
    grep ERROR "$ROOT/nextflow.log" | head -n 3 >&2
    if grep -q 'Could not transfer\|Unknown host\|Connection refused' "$ROOT/nextflow.log"; then
      say "Maven Central cannot be reached: Nextflow is not installed"
      return 3
    fi
    return 1
  fi
}

install() { # install NAME
  local name=$1 dir=$ROOT/$1 want stamp
  if ! want=$(packages "$name"); then
    say "unknown client $name; known: $ALL"
    return 2
  fi
  stamp=$want
  if [[ $name == nextflow ]]; then stamp+=" Nextflow $NEXTFLOW"; fi
  # The stamp is written last, so an interrupted installation has none.
  if [[ "$(cat "$dir/stamp" 2>/dev/null)" == "$stamp" ]]; then return 0; fi
  say "installing $want"
  rm -rf "$dir"
  python3 -m venv "$dir"
  # shellcheck disable=SC2086 # one argument for each package
  if ! "$dir/bin/pip" install -q --disable-pip-version-check --prefer-binary --retries 1 $want >"$ROOT/$name.log" 2>&1; then
    tail -n 5 "$ROOT/$name.log" >&2
    if grep -q 'connection error\|Failed to establish\|Temporary failure' "$ROOT/$name.log"; then
      say "the package index cannot be reached: $name is not installed"
      return 3
    fi
    return 1
  fi
  if [[ $name == nextflow ]]; then jars "$dir" || return; fi
  printf '%s\n' "$stamp" >"$dir/stamp"
}

mkdir -p "$ROOT"
for name in ${@:-$ALL}; do
  ( # one lock for each environment, so that quick ones do not wait for large ones
    flock 9
    install "$name"
  ) 9>"$ROOT/$name.lock"
done
