#!/usr/bin/env bash
# Both overlays under real kubelets: deploy/image/kind.sh IMAGE. Wants docker, kind, kubectl and Node; leaves no cluster behind.
# It was written for CI, and has not been run elsewhere; its last part was, on another cluster.
set -euo pipefail
cd "$(dirname "$0")/../.."

image=${1:?the image to try}
wanted=sluice:$(node -p 'require("./package.json").version')
cluster=sluice-try-$$
trap 'kind delete cluster --name "$cluster"' EXIT

# Three machines for the three servers of NATS.
kind create cluster --name "$cluster" --wait 120s --config - << 'M'
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes: [{ role: control-plane }, { role: worker }, { role: worker }, { role: worker }]
M
docker tag "$image" "$wanted"
kind load docker-image "$wanted" --name "$cluster"
kubectl apply -k deploy/overlays/local
in_time() { kubectl -n sluice rollout status "$1" --timeout 300s || { kubectl -n sluice describe pods; exit 1; }; }
in_time statefulset/redis
in_time statefulset/nats
in_time deployment/sluice

kubectl -n sluice exec deploy/sluice -- sluice apps add --app-id try --plan 5m | grep -o 'ak_[a-z0-9_]*' | head -1 > /tmp/key
kubectl -n sluice port-forward service/sluice 18080:80 > /dev/null &
forward=$!
trap 'kill $forward 2> /dev/null || true; kind delete cluster --name "$cluster"' EXIT
post() {
  curl -sf -o /dev/null -w '%{http_code}' localhost:18080/api/v1/events -H 'Content-Type: application/json' -d '{"app_key":"'"$(cat /tmp/key)"'","events":[{
    "type":"track","name":"tried","hashed_daily_id":"try-daily-0123456789","hashed_monthly_id":"try-monthly-0123456789",
    "session_id":"try","timestamp":"'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'","context":{"os":"Linux"}}]}'
}
for _ in $(seq 60); do [ "$(post)" = 202 ] && break; sleep 1; done
[ "$(post)" = 202 ]

# Killed as a machine would take it: what was answered 202 is there afterwards.
kubectl -n sluice delete pod nats-0 --grace-period 0 --force
in_time statefulset/nats
kubectl -n sluice rollout restart deployment/sluice
in_time deployment/sluice
stored=$(kubectl -n sluice exec deploy/sluice -- sluice tail --from-start --no-follow --records | wc -l)
[ "$stored" -ge 2 ] || { echo "$stored of 2 batches are stored"; exit 1; }
kubectl -n sluice exec deploy/sluice -- sluice check

# Production, while things happen to it.
kubectl delete -k deploy/overlays/local --wait
load/kubernetes/main.sh rollout force drain-machine nats-leader redis password-of-nodes components spool-on nats-away-with-spool drain-volume spool-off
echo 'all is well'
