#!/usr/bin/env bash
# Runs on Node 24 too, and so on the newer HTTP engine, what can differ there: what clients see (contract, hostile), and the
# unit tests of the parts that are written against the engine, V8 or Node: WebAssembly, shared memory, threads, zlib, files
# and processes. The other tests hold plain rules (limits, keys, apps, settings, the API's pages), which no engine changes, or
# the papers of this project; the simulator and the differential runs open no port; and the CI runs `npm run check` whole on
# each Node.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 24 ]; then
  echo "tests on Node 24: npm test runs them, on this Node $(node --version)"
  exit
fi
if ! folder=$(tools/node24.sh); then
  if [ "$(id -u)" = 0 ] && [ -r /etc/debian_version ]; then
    echo 'tests on Node 24: failed to get Node 24, which Debian as root should' >&2
    exit 1
  fi
  echo 'not run: the tests on Node 24, which cannot be had here (see above)'
  exit
fi
export PATH="$folder:$PATH"
echo "tests on Node $(node --version)"
# One run, since the long ones wait while the others compute.
node test/run.js --project=unit --project=alone --project=contract --project=hostile --project=long test/hostile/ \
  test/contract/{admin,answers,bytes,console,cors,credentials,engine,errors,fidelity,head,keep-alive,media,portal,way-back} \
  test/unit/{apps/file/apps-file.test,http/,request/inflate,ring/,start/{ending,service},supervisor/} \
  test/unit/decode/{decoder,differential,scan-pace,sweep,utf8} test/unit/lib/{crc32c,edit-lock,folder,open-files} \
  test/unit/queue/journal/{direct-writes,disk,failing-disk,journal.test}
