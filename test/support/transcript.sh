# What a transcript's commands find. `sluice` is the built program; the folder is the test's own.
shopt -s expand_aliases
set -o pipefail
sluice() {
  if [ "$*" = serve ] || [ -n "$as_processes" ]; then "$NODE" "$MAIN" "$@"; else ask sluice "$@"; fi
}
# Set for a test that wants a process for each command.
as_processes=

# The result of an expression over the JSON on standard input, which it calls `o`.
json() { ask json "$1"; }

# ask NAME ARGUMENTS...: of command-server.js, which reads and writes what this shell does.
ask() {
  local call code
  exec {call}<> "/dev/tcp/127.0.0.1/$COMMANDS"
  printf '%s\0' "$BASHPID" "$PWD" "$#" "$@" >&$call
  # What comes last is said by a shell of its own, and the answer read with -u, so that no file of this one is moved meanwhile.
  (env -0 && printf '\4') >&$call
  read -r -u $call code
  exec {call}>&-
  return "${code:-70}"
}

# app ID [MEMBER:VALUE,...]: one more in apps.json, with the key ak_ID; plan 5m and active where nothing else is said.
app() {
  [ -f apps.json ] || echo '{"apps":[]}' > apps.json
  json "o.apps.push({app_key:'ak_$1',app_id:'$1',plan:'5m',subscription:'active',$2}) && o" < apps.json > apps.new && mv apps.new apps.json
}

# body KEY COUNT [MEMBER:VALUE,...]: a batch with so many events.
body() {
  json "(event => ({ app_key: '$1', events: Array($2).fill(event), $3 }))({ type: 'track', name: 'signup',
    hashed_daily_id: 'd'.repeat(32), hashed_monthly_id: 'm'.repeat(32), session_id: '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10',
    timestamp: new Date().toISOString(), context: { os: 'ios' } })" <<< null
}

# record NUMBER EVENTS: a line of the queue; odd numbers are of app a1, even ones of a0.
record() {
  printf '{"v":1,"batch_id":"0b9e3a52-6f0c-7d7e-9a55-%012d","app_id":"a%d","received_at":"2026-11-20T12:00:00.000Z","events":%s}\n' "$1" $(($1 % 2)) "$2"
}

# journal: standard input is the first segment.
journal() { mkdir -p journal && cat > journal/000000000001.ndjson; }

# serve [NAME=VALUE...]: the service on free ports, in the background, once it listens. $PORT, $SLUICE_ADMIN_PORT and $pid are its own.
serve() {
  : > log.json
  env HOST=127.0.0.1 PORT=0 SLUICE_ADMIN_PORT=0 "$@" "$NODE" "$MAIN" serve 2> log.err > >(exec cat >> log.json) &
  pid=$!
  until listening=$(grep '"msg":"listening"' log.json); do
    kill -0 $pid 2> /dev/null || { cat log.json log.err; return 1; }
    sleep 0.05
  done
  export HOST=127.0.0.1 PORT=$(json o.port <<< "$listening") SLUICE_ADMIN_PORT=$(json o.admin_port <<< "$listening")
}
# background ARGUMENTS...: sluice with its stdout in `lines` and its stderr in `notes`, as $pid.
background() { : > notes; "$NODE" "$MAIN" "$@" > lines 2> notes & pid=$!; }
ended() { kill "-$1" "$pid" && wait "$pid" 2> /dev/null; }

# post: standard input, to the service; prints the status, the code where there is one, and leaves the headers in `head`.
post() {
  local status
  status=$(curl -sS -D head -o answer -w '%{http_code}' -H 'Content-Type: application/json' "$@" --data-binary @- "http://127.0.0.1:$PORT/api/v1/events")
  echo "$status $(json "o.error ?? o.status + ' ' + o.events" < answer)"
}
header() { sed -n "s/^$1: \\(.*\\)\\r\$/\\1/Ip" head; }

# redis COMMAND: one line of what Redis answers.
redis() {
  local place=${REDIS_URL#redis://}
  exec 3<> "/dev/tcp/${place/://}" && printf '%s\r\n' "$@" >&3 && read -r answered <&3 && exec 3>&-
  echo "${answered%$'\r'}"
}

# put KEY TEXT: into the bucket of the apps, as any other program might.
put() { "$NODE" "${MAIN%/dist/main.js}/test/support/put-entry.mjs" "$@"; }

# until_true COMMAND...: again and again until it succeeds.
until_true() { for _ in $(seq 1500); do "$@" && return; sleep 0.05; done; echo "never true: $*"; return 1; }

# A program that is not sluice, on a port of its own, which it leaves in $taken.
stranger() {
  "$NODE" -e "require('http').createServer((_, answer) => answer.end('${1:-hello}')).listen(0, '127.0.0.1', function () { console.log(this.address().port) })" > stranger &
  until_true test -s stranger
  taken=$(cat stranger)
  rm stranger
}

# typed ANSWER ARGUMENTS...: sluice on a terminal of script(1), which Debian has in bsdutils.
typed() {
  local answer=$1
  shift
  sleep 1 | { echo "$answer"; cat; } | script --quiet --return --echo never --command "$(printf '%q ' "$NODE" "$MAIN" "$@")" /dev/null | tr -d '\r'
}
