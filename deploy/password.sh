#!/usr/bin/env bash
# New passwords for NATS in a cluster of deploy/overlays/production, while it serves (docs/kubernetes.md, "Passwords"):
#
#   deploy/password.sh nodes       the one that the nodes use: the idle one of the users sluice and sluice2 gets a new password, the
#                                  nodes move to it, and the other user's password is changed last
#   deploy/password.sh operator    the toolbox's. reader and system likewise: who logs in with them is refused until he has the new one
#   deploy/password.sh routes      what the servers say to each other: sluice answers 503 for some seconds, while they find each other again
#
# No server of NATS is restarted: each reads its configuration again once its kubelet has brought the new file, mostly within two
# minutes. Each may be run again after it was ended at any point. Wants kubectl, with the right to read and change Secrets, to exec
# into the pods of NATS and to read their logs. NAMESPACE: sluice. KUBECTL: kubectl. WAIT_SECONDS: for a file, and for a rollout (600).
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
  local file=$1 sum pod
  change nats-passwords "$file" "$2"
  sum=$(printf %s "$2" | sha256sum | cut -d' ' -f1)
  say "$file is in the Secret; each server reads it once it is on its machine"
  for pod in $(k get pods --selector app.kubernetes.io/name=nats --output 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'); do
    read_again "$pod" "$file" "$sum"
  done
}

read_again() {
  local pod=$1 file=$2 sum=$3 since=$SECONDS log
  until k exec "$pod" -c nats -- sha256sum "/etc/nats/$file" | grep -q "^$sum "; do
    [ $((SECONDS - since)) -lt "$WAIT_SECONDS" ] || fail "$file did not come to $pod in $WAIT_SECONDS s. Run this again; nothing has changed for clients there"
    sleep "$POLL_SECONDS"
  done
  since=$SECONDS
  k exec "$pod" -c nats -- nats-server --signal reload=/var/run/nats/nats.pid
  until log=$(k logs "$pod" -c nats --since 15s) && grep -q 'Reloaded server configuration' <<< "$log"; do
    ! grep 'Failed to reload' <<< "$log" >&2 || fail "$pod goes on with its old passwords. Mend the Secret nats-passwords and run this again"
    [ $((SECONDS - since)) -lt 15 ] || fail "$pod does not say that it has read its configuration again. See: $KUBECTL -n $NAMESPACE logs $pod"
    sleep "$POLL_SECONDS"
  done
  say "$pod has it"
}

# set_user USER PASSWORD
set_user() { set_file "$1.conf" "NATS_$(tr '[:lower:]' '[:upper:]' <<< "$1")_PASSWORD: $2"; }
# login SECRET USER PASSWORD: the servers of its NATS_URL stay.
login() { change "$1" NATS_URL "$(value "$1" NATS_URL | sed -E "s#//[^/@]*@#//$2:$3@#g")"; }

# On the Secret, while nodes may have either user.
MOVING=sluice-nodes-move
roll() {
  k rollout restart "$nodes"
  k rollout status "$nodes" --timeout "${WAIT_SECONDS}s"
}

case "${1-}" in
  nodes)
    used=$(value sluice-connections NATS_URL | sed -nE 's#^[a-z]+://(sluice2?):.*#\1#p')
    case $used in
      sluice) idle=sluice2 ;;
      sluice2) idle=sluice ;;
      *) fail "NATS_URL of the Secret sluice-connections names neither the user sluice nor sluice2" ;;
    esac
    nodes=$(k get statefulset/sluice --ignore-not-found --output name)
    [ -n "$nodes" ] && nodes=statefulset/sluice || nodes=deployment/sluice
    # An earlier run may have ended before all nodes had what the Secret says, and then some are still the idle user.
    [ -z "$(k get secret nats-passwords --output "jsonpath={.metadata.annotations.$MOVING}")" ] || { say "an earlier run was ended: the nodes first become $used, all of them"; roll; }
    k annotate secret nats-passwords "$MOVING=yes" --overwrite
    new=$(password)
    set_user "$idle" "$new"
    login sluice-connections "$idle" "$new"
    say "the nodes move from $used to $idle"
    roll
    k annotate secret nats-passwords "$MOVING-"
    set_user "$used" "$(password)"
    say "the nodes are $idle, and the old password of $used is worth nothing"
    ;;
  operator)
    new=$(password)
    set_user operator "$new"
    login toolbox-connections operator "$new"
    say 'a toolbox that runs has the old one: delete its job, and create it again'
    ;;
  reader | system)
    set_user "$1" "$(password)"
    say "it is in the Secret nats-passwords, in $1.conf"
    ;;
  routes)
    used=$(value nats-passwords routes.conf)
    set_file routes.conf "$(sed -E "s/(password: )[^,]*/\1NEW/; s#//routes:[^@]*@#//routes:NEW@#g; s/NEW/$(password)/g" <<< "$used")"
    ;;
  *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
