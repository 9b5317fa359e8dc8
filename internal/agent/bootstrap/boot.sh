#!/bin/bash
# Tradewind: downloads the agent, checks it, and starts it. Written by the broker, run by cloud-init.
set -euo pipefail
umask 077

#VALUES#
root="${TRADEWIND_ROOT:-}"
lib="$root/var/lib/tradewind"
run="$root/run/tradewind"
agent="$lib/agent/$sha256/tradewind-agent"
# The array may be empty: this form is valid in every bash.
for word in ${environment[@]+"${environment[@]}"}; do export "${word?}"; done

say() { echo "tradewind: $*" >&2; }

# A machine without an agent is useless: it powers off.
off() {
  rm -f "$run/token" "$run/curl" "$run/mailbox"
  say "$1"
  [ -n "$root" ] || shutdown -h now || poweroff -f
  exit 1
}
trap 'off "line $LINENO failed"' ERR

# again TRIES COMMAND...: retries until it succeeds, with growing pauses.
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
systemd=${TRADEWIND_SYSTEMD:-}
if [ -e /run/systemd/system ] && [ -z "$root" ]; then systemd=yes; fi
if [ -n "$systemd" ] && systemctl is-active --quiet tradewind-agent; then
  say "the agent is already running"
  exit 0
fi

# This machine's identity. The broker has set above what the cloud's metadata service does not provide.
metadata() { # PATH HEADER
  curl -fsS -m 5 --noproxy '*' -H "$2" "$service/$1"
}
session() {
  pass=$(curl -fsS -m 5 --noproxy '*' -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 600' "$service/latest/api/token")
}
aws() { metadata "latest/meta-data/$1" "X-aws-ec2-metadata-token: $pass"; }
gcp() { metadata "computeMetadata/v1/instance/$1" 'Metadata-Flavor: Google'; }
azure() { metadata "metadata/instance/$1?api-version=2021-02-01&format=text" 'Metadata: true'; }
silent="the machine's metadata does not answer"
case $cloud in
aws) # only IMDSv2 is open
  service="${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}"
  service="${service%/}"
  again 10 session || off "$silent"
  id=$(again 5 aws instance-id)
  rank=${rank:-$(again 5 aws ami-launch-index)}
  address=$(again 5 aws local-ipv4)
  ;;
gcp) # machines that are created together are named NAME-RANK
  service="http://${GCE_METADATA_HOST:-metadata.google.internal}"
  id=$(again 10 gcp id) || off "$silent"
  [ -n "$rank" ] || { name=$(again 5 gcp name); rank=$((10#${name##*-})); }
  address=$(again 5 gcp network-interfaces/0/ip)
  ;;
azure)
  service="${TRADEWIND_METADATA:-http://169.254.169.254}"
  service="${service%/}"
  id=$(again 10 azure compute/vmId) || off "$silent"
  address=$(again 5 azure network/interface/0/ipv4/ipAddress/0/privateIpAddress)
  ;;
*) # no metadata service: use the host name and its first address
  id=$(hostname)
  address=${TRADEWIND_ADDRESS:-$(hostname -I 2>/dev/null | cut -d ' ' -f 1)}
  ;;
esac
case $cloud in aws | gcp | azure) tells=$cloud ;; *) tells= ;; esac
[ "$rank" -lt "$machines" ] || off "rank $rank of $machines"
token=${any:-${tokens[$rank]}}
[ -n "$token" ] || off "rank $rank of $machines has no token"

# fetch downloads the agent from the URL above, or else from the one that the broker returns, without the token. curl
# reads its options from a file, because every user can read process lists.
fetch() {
  local url=$source
  [ -n "$url" ] || url=$(locate) || return 1
  [ -n "$url" ] || { say "the broker returned no URL for the agent"; return 1; }
  printf 'url = "%s"\n' "$url" >"$run/curl"
  curl -fsS --connect-timeout 10 -m 600 -K "$run/curl" -o "$agent.part" || return 1
  genuine "$agent.part" || { say "the agent's digest is not $sha256"; return 1; }
}
locate() {
  printf 'header = "Authorization: Bearer %s"\n' "$token" >"$run/curl"
  curl -fsS -m 60 -K "$run/curl" -o /dev/null -w '%{redirect_url}' "$endpoint$program"
}
genuine() { echo "$sha256  $1" | sha256sum -c --status 2>/dev/null; }
if ! genuine "$agent"; then
  again 5 fetch || off "cannot download the agent"
  chmod 0755 "$agent.part"
  mv -f "$agent.part" "$agent"
fi
rm -f "$run/curl"

printf '%s\n' "$token" >"$run/token"
[ -z "$mailbox" ] || printf '%s\n' "$mailbox" >"$run/mailbox"
settings=(
  "TRADEWIND_ENDPOINT=$endpoint" "TRADEWIND_TOKEN_FILE=$run/token" "TRADEWIND_DIR=$lib/work" "TRADEWIND_MACHINE=$id"
  "TRADEWIND_MACHINE_RANK=$rank"
  ${mailbox:+"TRADEWIND_MAILBOX_FILE=$run/mailbox"}
  "TRADEWIND_ADDRESS=$address" "TRADEWIND_NOTICES=$tells" "TRADEWIND_PROOF=$tells" "HOME=${HOME:-/root}"
  ${environment[@]+"${environment[@]}"}
)
unset tokens token any mailbox source
umask 022
if [ -n "$systemd" ]; then
  # A machine that shuts down stops its units in the inverse of their start-up order: the agent saves while the network and
  # the container engine still work. The wait is longer than any cloud leaves a spot machine its power.
  systemd-run --unit=tradewind-agent --collect --working-directory="$lib/work" \
    --property=KillMode=mixed --property=OOMScoreAdjust=-500 --property=LimitNOFILE=1048576 --property=TasksMax=infinity \
    --property='ExecStopPost=+/bin/sh -c "shutdown -h now"' --property=TimeoutStopSec=45 \
    --property=After=network-online.target --property=After=docker.service --property=After=containerd.service \
    "${settings[@]/#/--setenv=}" --setenv=TRADEWIND_SOLE=1 "$agent"
  # On Google Cloud, a preemption begins with the shutdown. As long as the agent runs, logind delays it by
  # InhibitDelayMaxSec (5 s), so that the metadata server's notice comes first.
  if [ "$cloud" = gcp ] && command -v systemd-inhibit >/dev/null; then
    systemd-run --unit=tradewind-inhibit --collect \
      --property=BindsTo=tradewind-agent.service --property=After=tradewind-agent.service \
      systemd-inhibit --what=shutdown --mode=delay --who=Tradewind --why='the task saves its work' sleep infinity ||
      say "no delay inhibitor"
  fi
elif [ -n "$root" ]; then
  cd "$lib/work"
  exec env "${settings[@]}" "$agent"
else
  cd "$lib/work"
  env "${settings[@]}" TRADEWIND_SOLE=1 "$agent" || true
  off "the agent has ended"
fi
