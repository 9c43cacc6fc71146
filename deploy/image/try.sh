#!/usr/bin/env bash
# Builds the image where there is no Docker engine, and tries it: podman, over a base that debootstrap and npm make.
# Needs Debian, root and the network; takes some minutes. Everything is made in one folder, and removed at the end.
set -euo pipefail

BASE=localhost/node:24-trixie-slim
IMAGE=localhost/sluice:try
repository=$(cd "$(dirname "$0")/../.." && pwd)
source "$repository/tools/versions.sh"
folder=$(mktemp -d "${TMPDIR:-/tmp}/sluice-image-XXXXXX")
servers=()

main() {
  install_tools
  step 'a base of Debian 13 and Node 24' && make_base
  step 'the image' && build_image
  step 'an embedded node' && try_embedded
  step 'two worker processes over Redis and NATS' && try_processes
  step 'sizes' && show_sizes
  echo 'all is well'
}

install_tools() {
  local missing=() tool
  for tool in debootstrap podman buildah runc redis-server nats-server curl; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  if ((${#missing[@]} > 0)); then
    # Debian starts the servers that it installs; this script wants only their programs.
    local policy=/usr/sbin/policy-rc.d made=false
    [[ -e $policy ]] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=true; }
    apt-get update -q && apt-get install -yq --no-install-recommends "${missing[@]}"
    if $made; then rm "$policy"; fi
  fi
}

# Stands in for the official image, so that no registry of images is needed: the same Debian and major version of Node,
# npm beside it, and a user 1000 called node.
make_base() {
  local root=$folder/base
  debootstrap --variant=minbase trixie "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$folder/debootstrap.log"
  rm -rf "$root"/usr/share/{doc,man,locale,info}/* "$root"/var/{cache/apt,lib/apt/lists,log}/*
  mkdir "$folder/packages" && cd "$folder/packages"
  unpack "node-linux-$(node -p process.arch)@$NODE24" node
  unpack "npm@$NPM" npm
  cp node/bin/node "$root/usr/local/bin/node"
  mkdir -p "$root/usr/local/lib/node_modules" && mv npm "$root/usr/local/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
  chroot "$root" useradd --uid 1000 --create-home node
  tar -C "$root" -c . | pod import --change 'CMD ["node"]' - "$BASE" >/dev/null 2>&1
  cd / && rm -rf "$root" "$folder/packages"
  pod run --rm "${confined[@]}" "$BASE" sh -c 'node --version; npm --version; ldd --version | head -1' | paste -sd ' '
}

unpack() { # PACKAGE FOLDER
  mkdir "$2" && tar xzf "$(npm pack --silent "$1")" -C "$2" --strip-components=1
}

build_image() {
  # Who has npm trust a further authority has the builder's npm trust it, too.
  local trust=()
  if [[ -n ${NODE_EXTRA_CA_CERTS:-} ]]; then
    echo 'cafile=/etc/ssl/extra.pem' >"$folder/npmrc"
    trust=(--volume "$NODE_EXTRA_CA_CERTS:/etc/ssl/extra.pem:ro" --volume "$folder/npmrc:/root/.npmrc:ro")
  fi
  timeout 900 podman "${store[@]}" build --network host --format docker "${trust[@]}" --build-arg "BASE=$BASE" \
    --tag "$IMAGE" "$repository" >"$folder/build.log" 2>&1 || { cat "$folder/build.log"; exit 1; }
  grep -E '^(added|removed|pruned) ' "$folder/build.log"
  expect 'its labels name the base' \
    "$(pod image inspect "$IMAGE" --format '{{index .Labels "org.opencontainers.image.base.name"}}')" "$BASE"
}

try_embedded() {
  choose_ports
  start node "${ports[@]}" --volume data:/var/lib/sluice
  expect 'node is process 1' "$(pod exec node sh -c 'tr "\\0" " " </proc/1/cmdline' | cut -d' ' -f1)" node
  expect 'it is user 1000' "$(pod exec node id -u):$(pod exec node id -g)" 1000:1000
  expect 'it has no capability' "$(pod exec node sed -n 's/^CapEff:\t//p' /proc/1/status)" 0000000000000000
  fails 'the root cannot be written' pod exec node touch /opt/sluice/x
  fails '/tmp cannot be written' pod exec node touch /tmp/x
  works 'it is healthy' pod healthcheck run node
  fails 'without a service it is not healthy' pod run --rm "${confined[@]}" --entrypoint node "$IMAGE" healthcheck.js
  key=$(pod exec node sluice apps list | awk '$1 == "demo" { print $(NF - 1) }')
  works 'the demo app may send more' pod exec node sluice apps set demo --events-per-minute 1000000
  eventually 'a batch is answered 202' post

  send_in_background
  expect_end SIGTERM 0
  pod start node >/dev/null 2>&1 && eventually 'it is up again' post
  send_in_background
  expect_end SIGINT 0
  pod start node >/dev/null 2>&1 && eventually 'it is up again' post
  send_in_background
  expect_end SIGKILL 137
  # A fresh container: what there is comes from the volume.
  pod rm --force node >/dev/null 2>&1
  expect_kept --volume data:/var/lib/sluice
  works 'sluice check has no complaint' pod run --rm "${confined[@]}" "${ports[@]}" --volume data:/var/lib/sluice "$IMAGE" check
}

try_processes() {
  choose_ports
  local child
  redis-server --bind 127.0.0.1 --port "$redis" --save '' --dir "$folder" >/dev/null & servers+=($!)
  nats-server -a 127.0.0.1 -p "$nats" -js -sd "$folder/nats" >"$folder/nats.log" 2>&1 & servers+=($!)
  local shared=(--env "REDIS_URL=redis://127.0.0.1:$redis" --env "NATS_URL=nats://127.0.0.1:$nats")
  eventually 'Redis and NATS are there' pod run --rm "${confined[@]}" "${ports[@]}" "${shared[@]}" "$IMAGE" check
  # After the heading come the app's id and key.
  key=$(pod run --rm "${confined[@]}" "${shared[@]}" "$IMAGE" apps add --app-id try --plan 5m | grep -o 'ak_[a-z0-9_]*' | head -1)
  start node "${ports[@]}" "${shared[@]}" --env SLUICE_PROCESSES=2
  eventually 'a batch is answered 202' post
  expect 'two worker processes run' "$(workers | wc -l)" 2
  child=$(workers | head -1)
  works 'one is killed' pod exec node node -e "process.kill($child, 'SIGKILL')"
  eventually 'another takes its place' has_two_others_than "$child"
  expect 'nobody is left a zombie' "$(pod exec node sh -c 'cat /proc/[0-9]*/stat' | awk '$3 == "Z"' | wc -l)" 0
  send_in_background
  expect_end SIGTERM 0
  expect_kept "${shared[@]}"
}

workers() { # the children of process 1
  pod exec node cat /proc/1/task/1/children | tr ' ' '\n' | sed '/^$/d'
}

has_two_others_than() { # PID
  [[ $(workers | grep -vcx "$1") == 2 ]]
}

show_sizes() {
  pod history --format '{{.Size}}  {{.CreatedBy}}' "$IMAGE" | grep -v '^0 B' | cut -c1-110
  pod image inspect "$IMAGE" --format 'in all: {{.Size}} bytes'
}

store=(--root "$folder/store" --runroot "$folder/run" --runtime runc)
# As an orchestrator that trusts nobody runs it, within the limits of this shell.
confined=(--network host --read-only --read-only-tmpfs=false --cap-drop ALL --security-opt no-new-privileges
  --ulimit "nofile=$(ulimit -Sn):$(ulimit -Hn)" --ulimit "nproc=4096:4096")

# Without systemd podman complains that it cannot run health checks by the clock: here they are run by hand.
pod() {
  timeout 120 podman "${store[@]}" "$@" 2> >(grep -v 'systemd' >&2)
}

choose_ports() { # four that are free, all open at once so that they differ
  read -r port admin redis nats < <(node -e '
    const servers = Array.from({ length: 4 }, () => require("net").createServer().listen(0, "127.0.0.1"))
    Promise.all(servers.map((server) => new Promise((done) => server.once("listening", done)))).then(() => {
      console.log(servers.map((server) => server.address().port).join(" "))
      for (const server of servers) server.close()
    })')
  ports=(--env "PORT=$port" --env "SLUICE_ADMIN_PORT=$admin")
}

start() { # NAME OPTION...
  : >"$folder/accepted"
  pod rm --force "$1" >/dev/null 2>&1 || true
  pod run --detach --name "$1" "${confined[@]}" "${@:2}" "$IMAGE" >/dev/null
  eventually 'it is ready' curl -sfo /dev/null "http://127.0.0.1:$admin/readyz"
}

post() { # notes the batch id of a 202
  local now head
  now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  head=$(curl -s --max-time 10 -D - -o /dev/null "http://127.0.0.1:$port/api/v1/events" -H 'Content-Type: application/json' -d '{"app_key":"'"$key"'","events":[{
    "type":"track","name":"tried","hashed_daily_id":"try-daily-0123456789","hashed_monthly_id":"try-monthly-0123456789",
    "session_id":"0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a","timestamp":"'"$now"'","context":{"os":"Linux"}}]}') || return 1
  [[ $head == 'HTTP/1.1 202'* ]] || return 1
  sed -n 's/^X-Batch-Id: \([^\r]*\).*/\1/p' <<<"$head" >>"$folder/accepted"
}

send_in_background() {
  (while post; do :; done) &
  sender=$!
  sleep 2
}

expect_end() { # SIGNAL EXIT_CODE
  pod kill --signal "$1" node >/dev/null 2>&1
  eventually "it ends on $1" is_over
  wait "$sender" || true
  expect "its exit code on $1" "$(pod inspect node --format '{{.State.ExitCode}}')" "$2"
}

is_over() {
  [[ $(pod inspect node --format '{{.State.Status}}') == exited ]]
}

expect_kept() { # OPTION...: where the queue is
  pod run --rm "${confined[@]}" "$@" "$IMAGE" tail --from-start --no-follow --records >"$folder/kept"
  expect "of $(wc -l <"$folder/accepted") accepted batches so many are missing" "$(missing_batches)" 0
}

missing_batches() {
  grep -o '"batch_id":"[^"]*"' "$folder/kept" | cut -d'"' -f4 | sort >"$folder/kept-ids"
  sort "$folder/accepted" | comm -23 - "$folder/kept-ids" | wc -l
}

step() { printf '\n== %s\n' "$1"; }

expect() { # WHAT FOUND WANTED
  [[ $2 == "$3" ]] || complain "$1: $2, not $3"
  echo "ok    $1: $2"
}

works() { # WHAT COMMAND...
  "${@:2}" >"$folder/output" 2>&1 || complain "$1: $(cat "$folder/output")"
  echo "ok    $1"
}

fails() { # WHAT COMMAND...
  if "${@:2}" >"$folder/output" 2>&1; then complain "$1: it did not fail"; fi
  echo "ok    $1"
}

eventually() { # WHAT COMMAND...
  local deadline=$((SECONDS + 45))
  until "${@:2}" >"$folder/output" 2>&1; do
    ((SECONDS < deadline)) || complain "$1 never came true: $(cat "$folder/output")"
    sleep 0.2
  done
  echo "ok    $1"
}

complain() {
  echo "wrong $1" >&2
  pod logs node >&2 2>&1 || true
  exit 1
}

clean_up() {
  if ((${#servers[@]} > 0)); then kill "${servers[@]}" 2>/dev/null || true; fi
  pod rm --all --force >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap clean_up EXIT

main
