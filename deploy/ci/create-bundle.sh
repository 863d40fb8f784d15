#!/usr/bin/env bash
# Creates a bundle and prints it; waits for an environment where WAIT_FOR names one. Everything comes from variables, so
# that nothing a build was given is read as a command. Needs curl and jq, and openssl where bodies are signed.
set -euo pipefail

images="[]"
while IFS= read -r line; do
  [ -n "$line" ] || continue
  name="${line%%=*}" reference="${line#*=}" digest=""
  case "$reference" in *@*) digest="${reference##*@}" reference="${reference%@*}" ;; esac
  images=$(jq -c --arg n "$name" --arg r "$reference" --arg d "$digest" \
    '. + [{name: $n, reference: $r} + (if $d == "" then {} else {digest: $d} end)]' <<< "$images")
done <<< "${IMAGES:-}"

body=$(jq -cn --arg pipeline "$PIPELINE" --arg namespace "${BUNDLE_NAMESPACE:-default}" --arg type "${BUNDLE_TYPE:-image}" \
  --argjson images "$images" --arg repo "${GIT_REPOSITORY:-}" --arg sha "${GIT_SHA:-}" --arg target "${TARGET:-}" \
  --arg commit "${COMMIT_SHA:-}" --arg run "${CI_RUN_URL:-}" --arg author "${AUTHOR:-}" '
  {pipeline: $pipeline, namespace: $namespace, type: $type,
   artifacts: ({} + (if ($images | length) > 0 then {images: $images} else {} end)
     + (if $sha == "" then {} else {gitCommit: {repository: $repo, sha: $sha}} end)),
   provenance: ({commitSHA: $commit, ciRunURL: $run, author: $author} | with_entries(select(.value != "")))}
  + (if $target == "" then {} else {intent: {target: $target}} end)')

headers=(-H "Content-Type: application/json" -H "Idempotency-Key: ${IDEMPOTENCY_KEY:?}")
if [ -n "${HMAC_KEY:-}" ]; then
  signature=$(printf %s "$body" | openssl dgst -sha256 -hmac "$HMAC_KEY" -r | cut -d' ' -f1)
  headers+=(-H "X-Kardinal-Signature: sha256=$signature")
fi

# The token goes through a file descriptor, not the process list.
call() { curl -sS --fail-with-body --retry 3 --retry-all-errors --retry-delay 2 -K <(printf 'header = "Authorization: Bearer %s"\n' "$API_TOKEN") "$@"; }

bundle=$(call -X POST "${headers[@]}" --data-binary "$body" "$API_URL/api/v1/bundles")
if [ -n "${WAIT_FOR:-}" ]; then
  status=$(jq -r .statusURL <<< "$bundle")
  bundle=$(call -G "$API_URL$status/wait" --data-urlencode "env=$WAIT_FOR" --data-urlencode "timeout=${WAIT_TIMEOUT:-10m}")
  [ "$(jq -r .outcome <<< "$bundle")" = verified ] || { jq . <<< "$bundle" >&2; exit 1; }
fi
printf '%s\n' "$bundle"
