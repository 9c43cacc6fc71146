#!/usr/bin/env bash
# sluice on a cluster of Kubernetes, while things happen to it: load/kubernetes/main.sh [SCENARIO…]
#
# Puts production (on small volumes, with a Redis) and a pod that sends into the cluster that kubectl reaches, and runs the scenarios, all
# of them where none is named. Each sends batches for a while, and each batch must be answered 202 in the end and be in the stream once.
# Prints a table; exit code 1 where one was lost, stored twice or never taken. The cluster has the images sluice:VERSION, nats,
# redis and nats-box of deploy/. KUBECTL: kubectl. RATE: batches a second (60). OUT: a folder for what was sent (a new one).
set -uo pipefail
cd "$(dirname "$0")"
KUBECTL=${KUBECTL:-kubectl} RATE=${RATE:-60} OUT=${OUT:-$(mktemp -d)}
VERSION=$(node -p 'require("../../package.json").version')
FAILED=0

k() { $KUBECTL -n sluice "$@" 2> >(grep -v 'version difference\|version skew' >&2); }
say() { echo "$(date -u +%T) $*" >&2; }
status() { k rollout status "$1" --timeout "${2:-300s}" > /dev/null || { say "$1 is not ready"; k get pods >&2; return 1; }; }
nodes_kind() { [ -n "$(k get statefulset/sluice --ignore-not-found -o name)" ] && echo statefulset/sluice || echo deployment/sluice; }
a_node() { k get pods -l app.kubernetes.io/name=sluice --field-selector status.phase=Running -o 'jsonpath={.items[0].metadata.name}'; }

# The Secrets by the page's own lines, with this Redis.
secrets() {
  [ -z "$(k get secret/sluice-connections --ignore-not-found -o name)" ] || return 0
  local lines
  lines=$(sed -n '/^   kubectl apply -f deploy\/base\/namespace.yaml/,/^   ```/p' ../../docs/kubernetes.md |
    sed "s/^   //; /^\`\`\`/d; /apply -f/d; s#^REDIS_URL=.*#REDIS_URL=redis://redis:6379#; s#^  *kubectl -n sluice#k#; s#^kubectl -n sluice#k#")
  eval "$lines"
}

install() {
  k apply -f ../../deploy/base/namespace.yaml && secrets && k apply -k redis && k apply -k plain || return 1
  status statefulset/redis && status statefulset/nats && status deployment/sluice || return 1
  k delete job/toolbox --ignore-not-found --cascade=foreground --wait
  k create job toolbox --from=cronjob/toolbox && k wait --for=jsonpath='{.status.ready}'=1 job/toolbox --timeout=120s || return 1
  [ -s "$OUT/key" ] || k exec job/toolbox -c sluice -- sluice apps add --app-id "try$RANDOM" --plan 5m --events-per-minute 1000000 | grep -o 'ak_[A-Za-z0-9_]*' | head -1 > "$OUT/key"
  $KUBECTL create namespace load --dry-run=client -o yaml | $KUBECTL apply -f -
  $KUBECTL -n load create configmap sender --from-file=sender.mjs=sender.js --dry-run=client -o yaml | $KUBECTL apply -f -
  $KUBECTL -n load apply -f - <<M
apiVersion: v1
kind: Pod
metadata: { name: sender }
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: sender
      image: sluice:$VERSION
      command: [sleep, infinity]
      resources: { requests: { cpu: 50m, memory: 128Mi } }
      volumeMounts: [{ name: sender, mountPath: /sender }]
  volumes: [{ name: sender, configMap: { name: sender } }]
M
  $KUBECTL -n load wait --for=condition=Ready pod/sender --timeout 120s
}

# scenario NAME SECONDS COMMAND…: sends for so long, and runs the command meanwhile.
scenario() {
  local name=$1 seconds=$2; shift 2
  say "$name, $seconds s at $RATE/s"
  $KUBECTL -n load exec sender -- node /sender/sender.mjs http://sluice.sluice/api/v1/events "$(cat "$OUT/key")" "$seconds" "$RATE" > "$OUT/$name.jsonl" 2> "$OUT/$name.err" &
  local sender=$!
  sleep 3
  "$@" > "$OUT/$name.log" 2>&1 || { say "$name: what was done failed"; tail -5 "$OUT/$name.log" >&2; FAILED=1; }
  wait $sender || { say "$name: the sender failed"; tail -3 "$OUT/$name.err" >&2; FAILED=1; }
  "${AFTER:-true}" >> "$OUT/$name.log" 2>&1 || { say "$name: what was done afterwards failed"; tail -5 "$OUT/$name.log" >&2; FAILED=1; }
  # Read from first to last in a pod, since the sender's own namespace may not reach NATS.
  k exec "$(a_node)" -c sluice -- sluice tail --from-start --no-follow --records 2> /dev/null | node judge.js "$OUT/$name.jsonl" || FAILED=1
}

rollout() { k rollout restart "$(nodes_kind)" && status "$(nodes_kind)"; }
# Another setting, which is another ConfigMap, so that all pods are replaced; and back.
setting() { k apply -k setting && status deployment/sluice && k apply -k plain && status deployment/sluice; }
let_go() { k delete pod "$(a_node)" && status "$(nodes_kind)"; }
force() { k delete pod "$(a_node)" --force --grace-period=0 && status "$(nodes_kind)"; }
machine() { k get pod "$(a_node)" -o 'jsonpath={.spec.nodeName}'; }
drain_machine() {
  local machine; machine=$(machine)
  $KUBECTL drain "$machine" --ignore-daemonsets --delete-emptydir-data --force --pod-selector app.kubernetes.io/name=sluice --timeout 200s || return 1
  $KUBECTL uncordon "$machine"
  status "$(nodes_kind)"
}
nats_rollout() { k rollout restart statefulset/nats && status statefulset/nats 400s; }
leader() { k exec job/toolbox -c nats -- nats stream info SLUICE_EVENTS --json | node -p 'JSON.parse(require("fs").readFileSync(0)).cluster.leader'; }
nats_leader() { k delete pod "$(leader)" --force --grace-period=0 && sleep 5 && status statefulset/nats 400s; }
redis() { k delete pod redis-0 --force --grace-period=0 && sleep 2 && status statefulset/redis; }
# As the autoscaler does it, which owns the number of pods.
scale() {
  k patch hpa/sluice -p '{"spec":{"minReplicas":5}}' && sleep 40 && status "$(nodes_kind)" || return 1
  k patch hpa/sluice -p '{"spec":{"minReplicas":3}}' && k scale "$(nodes_kind)" --replicas 3 && sleep 15
}
nats_away() { k scale statefulset/nats --replicas 0 && sleep "$1" && k scale statefulset/nats --replicas 3 && status statefulset/nats 400s; }
# With a spool: a pod that is deleted meanwhile comes back, ready, though NATS is still away.
nats_away_and_start() {
  k scale statefulset/nats --replicas 0 && sleep 20 || return 1
  k delete pod sluice-1 --force --grace-period=0 && sleep 3 || return 1
  k wait --for=condition=Ready pod/sluice-1 --timeout 60s || { k exec sluice-1 -- node -e 'fetch("http://localhost:9090/readyz?verbose").then((a) => a.text()).then(console.log)'; return 1; }
  sleep 90
  k scale statefulset/nats --replicas 3 && status statefulset/nats 400s && status statefulset/sluice
}
# A password of NATS, by whom it is used. No server restarts.
password() {
  local before
  before=$(nats_starts)
  ../../deploy/password.sh "$1" || return 1
  [ "$before" = "$(nats_starts)" ] || { echo "servers of NATS were replaced: $before, $(nats_starts)"; return 1; }
}
nats_starts() { k get pods -l app.kubernetes.io/name=nats -o 'jsonpath={.items[*].status.startTime}'; }
# Every component, each object in its namespace; the servers of NATS in a zone each, as machines are called for this.
components() {
  local at made
  for at in $($KUBECTL get nodes -o 'jsonpath={.items[*].metadata.name}'); do zone "$at" zone-0; done
  for at in 0 1 2; do zone "$(k get pod "nats-$at" -o 'jsonpath={.spec.nodeName}')" "zone-$at"; done
  # What is there already is a real one.
  $KUBECTL create -f definitions.yaml || true
  $KUBECTL wait --for=condition=Established crd/serverstransports.traefik.io crd/httproutes.gateway.networking.k8s.io crd/backendtrafficpolicies.gateway.envoyproxy.io
  k apply -k components && status deployment/sluice && status statefulset/nats 400s || return 1
  [ "$(k get endpointslices -l kubernetes.io/service-name=sluice-portal -o 'jsonpath={.items[*].ports[*].port}')" = 9191 ] || { echo 'the portal has no port'; return 1; }
  [ "$(k get pod nats-0 -o 'jsonpath={.spec.priorityClassName}')" = sluice-nats ] || { echo 'NATS has no priority'; return 1; }
  made=$($KUBECTL -n default get ingresses,networkpolicies,httproutes,backendtrafficpolicies,serverstransports,services -o name | grep -v '^service/kubernetes$' || true)
  [ -z "$made" ] || { echo "in the namespace default: $made"; return 1; }
  k delete ingresses,httproutes,backendtrafficpolicies,serverstransports --all && k delete service/sluice-portal networkpolicy/sluice-portal networkpolicy/sluice-console
  k apply -k plain && status deployment/sluice && status statefulset/nats 400s
}
zone() { $KUBECTL label node "$1" "topology.kubernetes.io/zone=$2" --overwrite; }
spool_on() { ../../deploy/spool.sh on spool; }
spool_off() { ../../deploy/spool.sh off plain; }
# Until each node has sent what its disk holds.
sent_on() {
  for _ in $(seq 120); do
    local left=0 pod
    for pod in $(k get pods -l app.kubernetes.io/name=sluice -o 'jsonpath={.items[*].metadata.name}'); do
      left=$((left + $(k exec "$pod" -c sluice -- node -e 'fetch("http://localhost:9090/metrics").then((a) => a.text()).then((text) => console.log(/^sluice_spool_batches (\d+)/m.exec(text)?.[1] ?? 0))' || echo 1)))
    done
    [ "$left" -eq 0 ] && return
    sleep 2
  done
  echo "$left batches are still in the spools"; return 1
}
# A node that goes while NATS is away leaves its volume, which a job sends.
drain_volume() {
  k patch hpa/sluice -p '{"spec":{"minReplicas":4}}' && k scale statefulset/sluice --replicas 4 && status statefulset/sluice || return 1
  k patch hpa/sluice -p '{"spec":{"minReplicas":3}}' && k scale statefulset/nats --replicas 0 && sleep 20 || return 1
  k scale statefulset/sluice --replicas 3 && k wait --for=delete pod/sluice-3 --timeout 100s || return 1
  k scale statefulset/nats --replicas 3 && status statefulset/nats 400s && ../../deploy/spool.sh drain spool-sluice-3
}

ALL=(quiet rollout setting let-go force drain-machine nats-rollout nats-leader redis scale password-of-nodes password-of-routes components nats-away-75s spool-on nats-away-with-spool drain-volume spool-rollout spool-off)
run() {
  case $1 in
    quiet) scenario "$1" 15 true ;;
    rollout) scenario "$1" 75 rollout ;;
    setting) scenario "$1" 120 setting ;;
    let-go) scenario "$1" 40 let_go ;;
    force) scenario "$1" 40 force ;;
    drain-machine) scenario "$1" 90 drain_machine ;;
    nats-rollout) scenario "$1" 150 nats_rollout ;;
    nats-leader) scenario "$1" 60 nats_leader ;;
    redis) scenario "$1" 45 redis ;;
    scale) scenario "$1" 90 scale ;;
    password-of-nodes) scenario "$1" 300 password nodes ;;
    password-of-routes) scenario "$1" 150 password routes ;;
    components) scenario "$1" 360 components ;;
    nats-away-75s) scenario "$1" 110 nats_away 75 ;;
    spool-on) scenario "$1" 90 spool_on ;;
    nats-away-with-spool) AFTER=sent_on scenario "$1" 190 nats_away_and_start ;;
    drain-volume) AFTER=sent_on scenario "$1" 120 drain_volume ;;
    spool-rollout) scenario "$1" 120 rollout ;;
    spool-off) scenario "$1" 120 spool_off ;;
    *) say "there is no scenario $1: ${ALL[*]}"; exit 2 ;;
  esac
}

install > "$OUT/install.log" 2>&1 || { say 'sluice did not get ready'; tail -20 "$OUT/install.log" >&2; exit 1; }
say "what was sent and done is in $OUT"
echo '| what happened | batches | 202 in the end | other answers | connection errors | lost / twice | longest time without a 202 |'
echo '|---|---|---|---|---|---|---|'
[ $# -gt 0 ] || set -- "${ALL[@]}"
for each in "$@"; do run "$each"; done
exit $FAILED
