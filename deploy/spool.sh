#!/usr/bin/env bash
# The spool of a cluster (docs/kubernetes.md, "The spool"):
#
#   deploy/spool.sh on OVERLAY      applies an overlay that has components/spool, and moves the nodes from the Deployment to the StatefulSet
#   deploy/spool.sh off OVERLAY     applies one without it, moves them back, and sends and removes every volume
#   deploy/spool.sh drain CLAIM     sends what the volume of a pod that is gone still holds, and removes it: spool-sluice-3
#
# Each may be run again after it was ended at any point. Wants kubectl, the right to change what the overlay holds, and room for
# one pod more than now: where the cluster has none, an old pod goes before each new one comes, but never the last. NAMESPACE: sluice.
# KUBECTL: kubectl. WAIT_SECONDS: how long it waits for the next pod, and for a volume to be sent (600). NO_ROOM_SECONDS: how long a
# pod finds no machine before an old one makes room (20); more, where machines are added on demand.
set -euo pipefail
NAMESPACE=${NAMESPACE:-sluice} KUBECTL=${KUBECTL:-kubectl} WAIT_SECONDS=${WAIT_SECONDS:-600}
# Between two looks, and how often an API server is asked that does not answer.
POLL_SECONDS=${POLL_SECONDS:-1} NO_ROOM_SECONDS=${NO_ROOM_SECONDS:-20} MAX_TRIES=${MAX_TRIES:-30}

k() { $KUBECTL --namespace "$NAMESPACE" "$@"; }
say() { echo "spool.sh: $*"; }
fail() { say "$*" >&2; exit 1; }

# An API server that does not answer says nothing about what there is: it is asked again, and then this ends. In $(…) only the subshell
# ends, so each use says `|| exit 1`.
ask() {
  local tries=0 answer
  until answer=$(k get "$@"); do
    tries=$((tries + 1))
    [ "$tries" -lt "$MAX_TRIES" ] || fail "kubectl get $* fails: nothing is changed from here on. Run this again when it works"
    sleep "$POLL_SECONDS"
  done
  [ -z "$answer" ] || printf '%s\n' "$answer"
}
exists() { local found; found=$(ask "$1" --ignore-not-found --output name) || exit 1; [ -n "$found" ]; }
# Of a workload: `spec.replicas` or `status.readyReplicas`, which is missing where it is 0.
count() { local n; n=$(ask "$1" --ignore-not-found --output "jsonpath={.$2}") || exit 1; echo "${n:-0}"; }

# move OLD NEW: NEW gets as many ready pods as OLD has, then OLD goes. At no time are fewer ready than at its start, but for one.
move() {
  local old=$1 new=$2 wanted have ready serving least last=-1 since=$SECONDS
  if ! exists "$old"; then say "there is no $old: nothing to move"; return; fi
  # Of the two, since an earlier run may have taken some of the old ones away.
  wanted=$(count "$old" spec.replicas) || exit 1
  have=$(count "$new" spec.replicas) || exit 1
  if [ "$have" -ge "$wanted" ]; then wanted=$have; else k scale "$new" --replicas "$wanted"; fi
  serving=$(count "$old" status.readyReplicas) || exit 1
  ready=$(count "$new" status.readyReplicas) || exit 1
  least=$((serving + ready < wanted ? serving + ready - 1 : wanted - 1))
  [ "$least" -ge 1 ] || least=1
  say "$new gets $wanted pods before $old goes"
  while :; do
    ready=$(count "$new" status.readyReplicas) || exit 1
    [ "$ready" -lt "$wanted" ] || break
    [ "$ready" -le "$last" ] || { say "$ready of $wanted are ready"; last=$ready since=$SECONDS; }
    [ $((SECONDS - since)) -lt "$WAIT_SECONDS" ] ||
      fail "no further pod of $new got ready in $WAIT_SECONDS s; $old still serves. See: $KUBECTL -n $NAMESPACE get pods, and run this again"
    # No machine has room: an old pod makes some.
    serving=$(count "$old" status.readyReplicas) || exit 1
    if [ $((SECONDS - since)) -ge "$NO_ROOM_SECONDS" ] && [ "$serving" -gt 0 ] && [ $((serving + ready - 1)) -ge "$least" ] && has_no_room; then
      say "no machine has room for a further pod: one of $old goes first"
      k scale "$old" --replicas $((serving - 1))
      since=$SECONDS
    fi
    sleep "$POLL_SECONDS"
  done
  say "$wanted of $wanted are ready; $old goes"
  k delete "$old" --cascade=foreground --wait --timeout "${WAIT_SECONDS}s"
}

# A pod waits for CPU, memory, a machine that may have it. One that waits for a volume would wait on.
has_no_room() {
  local why
  why=$(ask pods --selector app.kubernetes.io/name=sluice --field-selector status.phase=Pending \
    --output 'jsonpath={.items[*].status.conditions[?(@.reason=="Unschedulable")].message}') || exit 1
  grep -qE 'Insufficient|Too many pods|anti-affinity' <<< "$why"
}

# The kinds of what an overlay makes, one a line: `StatefulSet sluice`.
made_by() { $KUBECTL kustomize "$1" | awk '/^kind: /{kind=$2} /^  name: /{print kind, $2}'; }

drain() {
  local claim=$1 job=drain-${1##*-} pod=${1#spool-} state
  exists "persistentvolumeclaim/$claim" || fail "there is no volume claim $claim: it was sent and removed, or never was"
  ! exists "pod/$pod" || fail "the pod $pod uses $claim: a node sends what its volume holds by itself. Scale down first"
  exists cronjob/spool-drain || fail "there is no CronJob spool-drain, which is the pattern of the job: apply components/spool again"
  state=$(job_state "$job") || exit 1
  if [ "$state" = active ]; then
    say "the job $job is at work on it already, of this command run before: waiting for that one"
  else
    # One that has ended is in the way of a job of its name, and its pod in the way of the volume's removal.
    k delete job "$job" --ignore-not-found --cascade=foreground --wait
    k create job "$job" --from=cronjob/spool-drain --dry-run=client --output json | sed "s/spool-sluice-0/$claim/" | k create -f -
  fi
  local since=$SECONDS
  while :; do
    state=$(job_state "$job") || exit 1
    [ "$state" != complete ] || break
    [ "$state" != failed ] || { k logs "job/$job" --tail 5 >&2 || true; fail "the job $job failed; $claim stays as it is. Mend the cause and run this again"; }
    [ $((SECONDS - since)) -lt "$WAIT_SECONDS" ] || fail "not sent in $WAIT_SECONDS s. The job $job goes on: run this again to wait for it"
    sleep "$POLL_SECONDS"
  done
  k logs "job/$job" --tail 1 || true
  ! exists "pod/$pod" || fail "the pod $pod came back meanwhile, and uses $claim: it stays as it is"
  k delete job "$job" --cascade=foreground --wait
  k delete persistentvolumeclaim "$claim" --wait --timeout "${WAIT_SECONDS}s"
}

# complete, failed, active, or none
job_state() {
  local conditions
  exists "job/$1" || { echo none; return; }
  conditions=$(ask job "$1" --output 'jsonpath={range .status.conditions[?(@.status=="True")]}{.type}{"\n"}{end}') || exit 1
  awk '/^Complete$/{s="complete"} /^Failed$/{s="failed"} END{print s ? s : "active"}' <<< "$conditions"
}

claims() { ask persistentvolumeclaims --selector app.kubernetes.io/name=sluice --output 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'; }

case "${1-} ${2-}" in
  'on '?*)
    made_by "$2" | grep -qx 'StatefulSet sluice' || fail "$2 makes no StatefulSet sluice: put components/spool into it first"
    k apply -k "$2"
    move deployment/sluice statefulset/sluice
    say 'the nodes have their spools'
    ;;
  'off '?*)
    made_by "$2" | grep -qx 'Deployment sluice' || fail "$2 makes no Deployment sluice: take components/spool out of it first"
    k apply -k "$2"
    move statefulset/sluice deployment/sluice
    left=$(claims) || exit 1
    for claim in $left; do drain "$claim"; done
    k delete cronjob/spool-drain networkpolicy/spool-drain --ignore-not-found
    say 'the nodes have no spools, and no volume is left'
    ;;
  'drain '?*) drain "$2" ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
