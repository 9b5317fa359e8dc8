# Tradewind: downloads the agent from the broker and verifies its digest before the task's container starts.
set -euo pipefail
umask 022
mkdir -p "${INTO%/*}" "${INTO%/bin/*}/work" "${INTO%/bin/*}/home"
config=$(mktemp)
trap 'rm -f "$config"' EXIT

# curl gets its options from a file because everyone can read the process list, and with it the command line. The
# broker redirects to the agent's address; the download from there does not send the token.
fetch() {
  local url
  printf 'header = "Authorization: Bearer %s"\n' "$(cat "$TOKEN_FILE")" >"$config"
  url=$(curl -fsS -m 60 -K "$config" -o /dev/null -w '%{redirect_url}' "$ENDPOINT$PROGRAM") || return 1
  [ -n "$url" ] || { echo "tradewind: the broker did not return the agent's address" >&2; return 1; }
  printf 'url = "%s"\n' "$url" >"$config"
  curl -fsS --connect-timeout 10 -m 600 -K "$config" -o "$INTO.part" || return 1
  echo "$DIGEST  $INTO.part" | sha256sum -c --status || { echo "tradewind: the agent's digest is not $DIGEST" >&2; return 1; }
}
for try in 1 2 3 4 5; do
  if fetch; then
    chmod 0755 "$INTO.part"
    mv -f "$INTO.part" "$INTO"
    exit 0
  fi
  sleep "$try"
done
echo "tradewind: cannot download the agent from $ENDPOINT" >&2
exit 1
