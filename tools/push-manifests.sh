#!/usr/bin/env bash
# Puts deploy/ into a registry, for Flux and Argo CD: tools/push-manifests.sh ghcr.io/OWNER/sluice-manifests:0.4.0
#
# Prints its reference with the digest. Then pulls it, and builds both overlays of what came. Wants Go, and a login to the registry (docker
# login, or oras login). With OCI_LAYOUT=1 the reference is a folder and a tag, as /tmp/layout:0.4.0, and nothing leaves the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/versions.sh
reference=${1:?where to: REGISTRY/NAME:TAG}
kind=()
[ -z "${OCI_LAYOUT-}" ] || kind=(--oci-layout)

oras() { go run "oras.land/oras/cmd/oras@$ORAS" "$@"; }
# The tar has the times of files, which a checkout makes anew.
find deploy -exec touch -d "@$(git log -1 --format=%ct)" {} +
# One layer, a gzipped tar of the folder, whose media type both know. A commit's deploy/ has the same digest wherever it is made.
digest=$(oras push "${kind[@]}" "$reference" --annotation "org.opencontainers.image.created=$(git log -1 --format=%cI)" \
  --annotation "org.opencontainers.image.revision=$(git rev-parse HEAD)" --format go-template='{{.digest}}' deploy)
pulled=$(mktemp -d)
trap 'rm -rf "$pulled"' EXIT
oras pull "${kind[@]}" --output "$pulled" "${reference%:*}@$digest" >&2
diff -r deploy "$pulled/deploy"
for overlay in local production; do
  node tools/run.js kustomize build "$pulled/deploy/overlays/$overlay" | grep -q '^kind: Namespace$'
done
echo "${reference%:*}@$digest"
