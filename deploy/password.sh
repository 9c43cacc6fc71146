#!/usr/bin/env bash
# New passwords for NATS in a cluster of deploy/overlays/production, while it serves (docs/kubernetes.md, "Passwords"):
#
#   deploy/password.sh nodes       the one that the nodes use: the idle one of the users sluice and sluice2 gets a new password, the
#                                  nodes move to it, and the other user's password is changed last
#   deploy/password.sh operator    the toolbox's. reader and system likewise: who logs in with them is refused until he has the new one
#   deploy/password.sh routes      what the servers say to each other: sluice answers 503 for some seconds, while they find each other again
#
# No server of NATS is restarted: each reads its configuration again once its kubelet has brought the new file, mostly within two
# minutes. Each may be run again after it was ended at any point, and one runs at a time (the ConfigMap nats-password-changes). Wants
# kubectl, with the right to read and change Secrets, to exec into the pods of NATS and to read their logs. NAMESPACE: sluice. KUBECTL: kubectl. WAIT_SECONDS: for a file, and for a rollout (600).
set -euo pipefail
NAMESPACE=${NAMESPACE:-sluice} KUBECTL=${KUBECTL:-kubectl} WAIT_SECONDS=${WAIT_SECONDS:-600} POLL_SECONDS=${POLL_SECONDS:-1}

k() { $KUBECTL --namespace "$NAMESPACE" "$@"; }
say() { echo "password.sh: $*"; }
fail() { say "$*" >&2; exit 1; }
# A letter first: NATS would take a value that begins with a digit for a number.
password() { printf 'p%s' "$(openssl rand -hex 24)"; }
value() { k get secret "$1" --output "jsonpath={.data.${2//./\\.}}" | base64 -d; }
# Not as an argument, which `ps` would show. A value is one line without quotes and backslashes.
change() { printf '{"stringData":{"%s":"%s"}}' "$2" "$3" | k patch secret "$1" --patch-file /dev/stdin; }

# set_file FILE TEXT: into the Secret, and from there into every server.
set_file() {
  local file=$1 sum pods pod wanted
  pods=$(k get pods --selector app.kubernetes.io/name=nats --output 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}')
  wanted=$(k get statefulset/nats --output 'jsonpath={.spec.replicas}')
  [ "$(grep -c . <<< "$pods")" -eq "$wanted" ] || fail "not all $wanted servers of NATS have a pod: nothing is changed. Run this again when they do"
  change nats-passwords "$file" "$2"
  sum=$(printf %s "$2" | sha256sum | cut -d' ' -f1)
  say "$file is in the Secret; each server reads it once it is on its machine"
  for pod in $pods; do read_again "$pod" "$file" "$sum"; done
}

read_again() {
  local pod=$1 file=$2 sum=$3 since=$SECONDS before after
  until k exec "$pod" -c nats -- sha256sum "/etc/nats/$file" | grep -q "^$sum "; do
    [ $((SECONDS - since)) -lt "$WAIT_SECONDS" ] || fail "$file did not come to $pod in $WAIT_SECONDS s: it goes on with the one of before. Run this again"
    sleep "$POLL_SECONDS"
  done
  since=$SECONDS
  before=$(said "$pod")
  k exec "$pod" -c nats -- nats-server --signal reload=/var/run/nats/nats.pid || fail "$pod took no signal: it goes on with the passwords of before. Run this again"
  until after=$(said "$pod") && [ -n "$after" ] && [ "$after" != "$before" ]; do
    [ $((SECONDS - since)) -lt 30 ] || fail "$pod does not say that it has read its configuration again. See: $KUBECTL -n $NAMESPACE logs $pod"
    sleep "$POLL_SECONDS"
  done
  case $after in *Failed*) fail "$pod goes on with its old passwords. See its log, mend the Secret nats-passwords and run this again" ;; esac
  say "$pod has it"
}

# The last that a server has said of reading its configuration, with its time. Of the whole log: after a change of routes thousands of
# lines follow within seconds.
said() { k logs "$1" -c nats | grep -E 'Reloaded server configuration|Failed to reload' | tail -1 || true; }

# set_user USER PASSWORD
set_user() { set_file "$1.conf" "NATS_$(tr '[:lower:]' '[:upper:]' <<< "$1")_PASSWORD: $2"; }
# url SECRET: its NATS_URL, which must say who logs in.
url() {
  local found
  found=$(value "$1" NATS_URL)
  [[ $found == *//*:*@* ]] || fail "NATS_URL of the Secret $1 names no user with a password: nothing is changed"
  printf %s "$found"
}
# login SECRET URL USER PASSWORD: the servers of the URL stay.
login() { change "$1" NATS_URL "$(sed -E "s#//[^/@]*@#//$3:$4@#g" <<< "$2")"; }

# On the Secret, while nodes may have either user.
MOVING=sluice-nodes-move
# Of both workloads, where deploy/spool.sh is at work.
roll() {
  local nodes each
  nodes=$(k get deployment/sluice statefulset/sluice --ignore-not-found --output name)
  [ -n "$nodes" ] || fail 'there are no nodes: neither deployment/sluice nor statefulset/sluice'
  for each in $nodes; do k rollout restart "$each"; done
  for each in $nodes; do k rollout status "$each" --timeout "${WAIT_SECONDS}s"; done
}

case "${1-}" in
  nodes | operator | reader | system | routes)
    # One at a time: each would take the other's new password away.
    k create configmap nats-password-changes > /dev/null ||
      fail "another run is under way. If it was ended by force: $KUBECTL -n $NAMESPACE delete configmap nats-password-changes, and run this again"
    trap 'k delete configmap nats-password-changes > /dev/null' EXIT
    ;;
esac
case "${1-}" in
  nodes)
    connection=$(url sluice-connections)
    used=$(sed -nE 's#^[a-z]+://(sluice2?):.*#\1#p' <<< "$connection")
    case $used in
      sluice) idle=sluice2 ;;
      sluice2) idle=sluice ;;
      *) fail "NATS_URL of the Secret sluice-connections names neither the user sluice nor sluice2" ;;
    esac
    # An earlier run may have ended before all nodes had what the Secret says, and then some are still the idle user.
    moving=$(k get secret nats-passwords --output "jsonpath={.metadata.annotations.$MOVING}")
    [ -z "$moving" ] || { say "an earlier run was ended: the nodes first become $used, all of them"; roll; }
    k annotate secret nats-passwords "$MOVING=yes" --overwrite
    new=$(password)
    set_user "$idle" "$new"
    login sluice-connections "$connection" "$idle" "$new"
    say "the nodes move from $used to $idle"
    roll
    k annotate secret nats-passwords "$MOVING-"
    set_user "$used" "$(password)"
    say "the nodes are $idle, and the old password of $used is worth nothing"
    ;;
  operator)
    connection=$(url toolbox-connections)
    new=$(password)
    set_user operator "$new"
    login toolbox-connections "$connection" operator "$new"
    say 'a toolbox that runs has the old one: delete its job, and create it again'
    ;;
  reader | system)
    set_user "$1" "$(password)"
    say "it is in the Secret: $KUBECTL -n $NAMESPACE get secret nats-passwords -o 'jsonpath={.data.$1\\.conf}' | base64 -d"
    ;;
  routes)
    used=$(value nats-passwords routes.conf)
    [[ $used == *'password: '* ]] || fail 'the Secret nats-passwords has no routes.conf with a password: nothing is changed'
    set_file routes.conf "$(sed -E "s/(password: )[^,]*/\1NEW/; s#//routes:[^@]*@#//routes:NEW@#g; s/NEW/$(password)/g" <<< "$used")"
    ;;
  *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
