#!/bin/bash
# Tradewind: this machine fetches its agent, checks it, and starts it. Written by the broker, run by cloud-init.
set -euo pipefail
umask 077

#VALUES#
root="${TRADEWIND_ROOT:-}"
imds="${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}"
imds="${imds%/}"
lib="$root/var/lib/tradewind"
run="$root/run/tradewind"
agent="$lib/agent/$sha256/tradewind-agent"
# Words may be empty: an empty array is no error in any bash.
for word in ${environment[@]+"${environment[@]}"}; do export "${word?}"; done

say() { echo "tradewind: $*" >&2; }

# A machine without an agent is of no use to anybody: it ends itself.
off() {
  rm -f "$run/token" "$run/curl"
  say "$1"
  [ -n "$root" ] || shutdown -h now || poweroff -f
  exit 1
}
trap 'off "line $LINENO failed"' ERR

# again TRIES COMMAND...: until it succeeds, with a growing pause.
again() {
  local tries=$1 n
  shift
  for ((n = 1; ; n++)); do
    if "$@"; then return 0; fi
    if ((n >= tries)); then return 1; fi
    sleep "${TRADEWIND_PAUSE:-$n}"
  done
}

mkdir -p "$lib/work" "$run" "${agent%/*}"
[ -e /run/systemd/system ] && [ -z "$root" ] && systemd=yes || systemd=
if [ -n "$systemd" ] && systemctl is-active --quiet tradewind-agent; then
  say "the agent runs already"
  exit 0
fi

# Who this machine is: only IMDSv2 is open.
session() {
  pass=$(curl -fsS -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 600' "$imds/latest/api/token")
}
about() { curl -fsS -m 5 -H "X-aws-ec2-metadata-token: $pass" "$imds/latest/meta-data/$1"; }
again 10 session || off "the machine's metadata does not answer"
id=$(again 5 about instance-id)
rank=$(again 5 about ami-launch-index)
address=$(again 5 about local-ipv4)
[ "$rank" -lt "${#tokens[@]}" ] || off "rank $rank of ${#tokens[@]}"

# fetch asks the broker where the agent lies, and gets it from there without the token. What curl is told goes through a
# file: a process list is for everyone to read.
fetch() {
  local url
  printf 'header = "Authorization: Bearer %s"\n' "${tokens[$rank]}" >"$run/curl"
  url=$(curl -fsS -m 60 -K "$run/curl" -o /dev/null -w '%{redirect_url}' "$endpoint$program") || return 1
  [ -n "$url" ] || { say "the broker does not say where the agent lies"; return 1; }
  printf 'url = "%s"\n' "$url" >"$run/curl"
  curl -fsS --connect-timeout 10 -m 600 -K "$run/curl" -o "$agent.part" || return 1
  genuine "$agent.part" || { say "the agent's digest is not $sha256"; return 1; }
}
genuine() { echo "$sha256  $1" | sha256sum -c --status 2>/dev/null; }
if ! genuine "$agent"; then
  again 5 fetch || off "the agent cannot be fetched"
  chmod 0755 "$agent.part"
  mv -f "$agent.part" "$agent"
fi
rm -f "$run/curl"

printf '%s\n' "${tokens[$rank]}" >"$run/token"
unset tokens
settings=(
  "TRADEWIND_ENDPOINT=$endpoint" "TRADEWIND_TOKEN_FILE=$run/token" "TRADEWIND_DIR=$lib/work" "TRADEWIND_MACHINE=$id"
  "TRADEWIND_ADDRESS=$address" "TRADEWIND_NOTICES=aws" "TRADEWIND_PROOF=aws" "HOME=${HOME:-/root}"
  ${environment[@]+"${environment[@]}"}
)
umask 022
if [ -n "$systemd" ]; then
  systemd-run --unit=tradewind-agent --collect --working-directory="$lib/work" \
    --property=KillMode=mixed --property=OOMScoreAdjust=-500 --property=LimitNOFILE=1048576 --property=TasksMax=infinity \
    --property='ExecStopPost=+/bin/sh -c "shutdown -h now"' \
    "${settings[@]/#/--setenv=}" --setenv=TRADEWIND_SOLE=1 "$agent"
elif [ -n "$root" ]; then
  cd "$lib/work"
  exec env "${settings[@]}" "$agent"
else
  cd "$lib/work"
  env "${settings[@]}" TRADEWIND_SOLE=1 "$agent" || true
  off "the agent has ended"
fi
