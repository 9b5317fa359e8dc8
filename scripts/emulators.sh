#!/usr/bin/env bash
# Installs the emulators and checkers that the tests of the AWS parts use,
# under .tools/: DynamoDB Local (Java), a Python environment with moto,
# cfn-lint and checkov, the object stores of pkg/grant: MinIO and fake-gcs-server (Go),
# Azurite (Node), rclone for mounts (Go), an image registry (Go), and the connectors with which
# Spark reads emulated buckets (Maven). Quick if all are installed; safe to run twice at once.
#
#   scripts/emulators.sh            install what is missing
#   scripts/emulators.sh --check    list what is installed and what is missing; installs nothing
#
# A missing Java, Maven, Python, Go or Node is not an error: the script skips and names that part,
# and the tests that need it skip as well. A failed installation of DynamoDB Local or of the Python environment is an error
# (exit code 1); without the object stores only the tests of pkg/grant skip.
set -euo pipefail

DYNAMODB_LOCAL=2.5.2 # com.amazonaws:DynamoDBLocal
GIT_LFS=v3.6.0       # github.com/git-lfs/git-lfs: large files stored outside a repository
MINIO=v0.0.0-20260212201848-7aac2a2c5b7c # github.com/minio/minio: S3 with STS; checks signatures and session policies
FAKE_GCS=v1.56.1     # github.com/fsouza/fake-gcs-server
HADOOP_AWS=3.3.4     # org.apache.hadoop:hadoop-aws, of the Hadoop in pyspark 3.5
AWS_JAVA=1.12.262    # com.amazonaws:aws-java-sdk-*, of that hadoop-aws
GCS_HADOOP=hadoop3-2.2.21 # com.google.cloud.bigdataoss:gcs-connector
AZURITE=3.35.0       # npm: azurite, Azure Storage's emulator
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOOLS=${TRADEWIND_TOOLS:-$(dirname "$HERE")/.tools}
REQUIREMENTS=$HERE/requirements.txt # direct dependencies
CONSTRAINTS=$HERE/constraints.txt   # all versions of the last tested installation
PROGRAMS="moto_server cfn-lint checkov"

say() { printf 'emulators: %s\n' "$*" >&2; }

# The stamp names the installed versions, so a changed pin installs again. It is
# written last, so an interrupted installation has none.
jars_stamp() { printf 'DynamoDBLocal %s\n' "$DYNAMODB_LOCAL"; }
venv_stamp() { cat "$REQUIREMENTS" "$CONSTRAINTS"; }
stores_stamp() { printf 'MinIO %s, fake-gcs-server %s, git-lfs %s\n' "$MINIO" "$FAKE_GCS" "$GIT_LFS"; }
connectors_stamp() { printf 'hadoop-aws %s, aws-java-sdk %s, gcs-connector %s\n' "$HADOOP_AWS" "$AWS_JAVA" "$GCS_HADOOP"; }
rclone_stamp() { printf 'rclone %s\n' "$("$HERE/rclone.sh" --version)"; }
azurite_stamp() { printf 'azurite %s\n' "$AZURITE"; }

jars_ready() { [[ "$(cat "$TOOLS/dynamodb-local/stamp" 2>/dev/null)" == "$(jars_stamp)" ]]; }
stores_ready() { [[ "$(cat "$TOOLS/bin/stores.stamp" 2>/dev/null)" == "$(stores_stamp)" ]]; }
connectors_ready() { [[ "$(cat "$TOOLS/spark-stores/stamp" 2>/dev/null)" == "$(connectors_stamp)" ]]; }
rclone_ready() { [[ "$(cat "$TOOLS/bin/rclone.stamp" 2>/dev/null)" == "$(rclone_stamp)" ]]; }
azurite_ready() { [[ "$(cat "$TOOLS/azurite/stamp" 2>/dev/null)" == "$(azurite_stamp)" ]]; }
venv_ready() {
  [[ "$(cat "$TOOLS/venv/stamp" 2>/dev/null)" == "$(venv_stamp)" ]] || return 1
  # The interpreter may be gone, or the folder may be a copy from another path.
  "$TOOLS/venv/bin/python" -c 'import moto' 2>/dev/null
}

missing() { # missing PROGRAM...: prints those that are not installed
  local p
  for p in "$@"; do command -v "$p" >/dev/null || printf '%s ' "$p"; done
}

quietly() { # quietly LOG COMMAND...: shows the log if the command fails
  local log=$1
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    say "failed: $*"
    return 1
  fi
}

install_jars() {
  local lack
  if jars_ready; then return 0; fi
  lack=$(missing java mvn)
  if [[ -n $lack ]]; then
    say "skipped DynamoDB Local: not found: $lack(tests of internal/store/dynamo on it will skip)"
    return 0
  fi
  say "installing DynamoDB Local $DYNAMODB_LOCAL"
  local dir=$TOOLS/dynamodb-local
  rm -rf "$dir" && mkdir -p "$dir"
  cat >"$dir/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tradewind</groupId><artifactId>dynamodb-local</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>com.amazonaws</groupId><artifactId>DynamoDBLocal</artifactId><version>$DYNAMODB_LOCAL</version></dependency>
  </dependencies>
</project>
POM
  quietly "$dir/install.log" mvn --batch-mode --file "$dir/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$dir/lib" -DincludeScope=runtime || return 1
  jars_stamp >"$dir/stamp"
}

# Spark has its own versions of Jackson. The SDK's parts replace a bundle of 280 MB.
install_connectors() {
  local lack dir=$TOOLS/spark-stores module modules=""
  if connectors_ready; then return 0; fi
  lack=$(missing java mvn)
  if [[ -n $lack ]]; then
    say "skipped Spark's connectors: not found: $lack(tests of Spark on emulated services will skip)"
    return 0
  fi
  say "installing $(connectors_stamp)"
  rm -rf "$dir" && mkdir -p "$dir"
  for module in s3 dynamodb sts; do
    modules+="<dependency><groupId>com.amazonaws</groupId><artifactId>aws-java-sdk-$module</artifactId>
      <version>$AWS_JAVA</version></dependency>"
  done
  cat >"$dir/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tradewind</groupId><artifactId>spark-stores</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>$HADOOP_AWS</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>com.google.cloud.bigdataoss</groupId><artifactId>gcs-connector</artifactId><version>$GCS_HADOOP</version>
      <classifier>shaded</classifier>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    $modules
  </dependencies>
</project>
POM
  quietly "$dir/install.log" mvn --batch-mode --file "$dir/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$dir/lib" -DincludeScope=runtime \
    -DexcludeArtifactIds=jackson-core,jackson-databind,jackson-annotations || return 1
  connectors_stamp >"$dir/stamp"
}

# A Python that can create environments: Debian has venv in a separate package.
find_python() {
  local p
  for p in python3 python; do
    if "$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$p"
      return
    fi
  done
  return 1
}

install_venv() {
  local python dir=$TOOLS/venv
  if venv_ready; then return 0; fi
  if ! python=$(find_python); then
    say "skipped moto, cfn-lint and checkov: no Python 3.10 or newer with venv (tests on them will skip)"
    return 0
  fi
  say "installing $(grep -v '^#' "$REQUIREMENTS" | tr '\n' ' ')"
  rm -rf "$dir" && "$python" -m venv "$dir" || return 1
  local pip=("$dir/bin/python" -m pip --disable-pip-version-check install --quiet --no-input)
  if ! quietly "$dir/install.log" "${pip[@]}" -r "$REQUIREMENTS" -c "$CONSTRAINTS"; then
    say "trying again without the pinned indirect dependencies, which may not exist for this Python"
    quietly "$dir/install.log" "${pip[@]}" -r "$REQUIREMENTS" || return 1
  fi
  venv_stamp >"$dir/stamp"
}

install_stores() {
  if stores_ready; then return 0; fi
  if ! command -v go >/dev/null; then
    say "skipped MinIO, fake-gcs-server and git-lfs: not found: go (tests of stores and mounts will skip)"
    return 0
  fi
  say "building $(stores_stamp)"
  mkdir -p "$TOOLS/bin" && rm -f "$TOOLS/bin/stores.stamp"
  local module
  for module in "github.com/minio/minio@$MINIO" "github.com/fsouza/fake-gcs-server@$FAKE_GCS" \
    "github.com/git-lfs/git-lfs/v3@$GIT_LFS"; do
    quietly "$TOOLS/bin/install.log" env GOBIN="$TOOLS/bin" GOFLAGS= CGO_ENABLED=0 \
      go install -trimpath -ldflags '-s -w' "$module" || return 1
  done
  stores_stamp >"$TOOLS/bin/stores.stamp"
}

install_rclone() {
  if rclone_ready; then return 0; fi
  if ! command -v go >/dev/null; then
    say "skipped rclone: not found: go (tests of mounts will skip)"
    return 0
  fi
  say "building $(rclone_stamp)"
  mkdir -p "$TOOLS/bin" && rm -f "$TOOLS/bin/rclone.stamp"
  quietly "$TOOLS/bin/install-rclone.log" "$HERE/rclone.sh" "$(go env GOARCH)" "$TOOLS/bin/rclone" || return 1
  rclone_stamp >"$TOOLS/bin/rclone.stamp"
}

install_azurite() {
  local lack dir=$TOOLS/azurite
  if azurite_ready; then return 0; fi
  lack=$(missing node npm)
  if [[ -n $lack ]]; then
    say "skipped Azurite: not found: $lack(tests of pkg/grant on it will skip)"
    return 0
  fi
  say "installing Azurite $AZURITE"
  rm -rf "$dir" && mkdir -p "$dir"
  quietly "$dir/install.log" npm install --prefix "$dir" --no-audit --no-fund --ignore-scripts "azurite@$AZURITE" ||
    return 1
  azurite_stamp >"$dir/stamp"
}

report() {
  local p
  if jars_ready; then say "DynamoDB Local $DYNAMODB_LOCAL is installed"; else say "DynamoDB Local is not installed"; fi
  if stores_ready; then say "$(stores_stamp) are installed"; else say "MinIO, fake-gcs-server and git-lfs are not installed"; fi
  if connectors_ready; then say "$(connectors_stamp) are installed"; else say "Spark's connectors are not installed"; fi
  if rclone_ready; then say "$(rclone_stamp) is installed"; else say "rclone is not installed"; fi
  if azurite_ready; then say "Azurite $AZURITE is installed"; else say "Azurite is not installed"; fi
  for p in $PROGRAMS; do
    if venv_ready && [[ -x $TOOLS/venv/bin/$p ]]; then say "$p is installed"; else say "$p is not installed"; fi
  done
}

lock() { # one installation at a time; others wait
  mkdir -p "$TOOLS"
  if command -v flock >/dev/null; then
    exec 9>"$TOOLS/emulators.lock"
    flock -w 1200 9 || { say "another installation holds $TOOLS/emulators.lock"; exit 1; }
    return
  fi
  local tries=0 # no flock (macOS): only one process can create the folder
  until mkdir "$TOOLS/emulators.lock.d" 2>/dev/null; do
    ((++tries < 1200)) || { say "another installation holds $TOOLS/emulators.lock.d; remove it if no installation is running"; exit 1; }
    sleep 1
  done
  trap 'rmdir "$TOOLS/emulators.lock.d"' EXIT
}

case ${1:-} in
--check) report; exit 0 ;;
'') ;;
*) say "unknown argument $1"; exit 2 ;;
esac

registry() { # the image registry, whose script checks whether it is installed
  if ! command -v go >/dev/null; then return 0; fi
  mkdir -p "$TOOLS/bin"
  TRADEWIND_TOOLS=$TOOLS quietly "$TOOLS/bin/install-registry.log" "$HERE/registry.sh" ||
    say "the image registry could not be built: the test of logins will skip"
}

registry
if jars_ready && venv_ready && stores_ready && azurite_ready && rclone_ready && connectors_ready; then exit 0; fi
lock
failed=0
install_jars || failed=1
install_venv || failed=1
install_stores || say "MinIO and fake-gcs-server could not be built: tests of stores and mounts skip"
install_rclone || say "rclone could not be built: tests of mounts skip"
install_connectors || say "Spark's connectors could not be installed: tests of Spark on emulated services skip"
install_azurite || say "Azurite could not be installed: tests of pkg/grant on it skip"
exit $failed
