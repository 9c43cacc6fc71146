#!/usr/bin/env bash
# Holds Node's own HTTP server, on which sluice runs where uWebSockets.js has no binary, to the tests of what clients of the port
# for events see, on this Node. `npm test` runs them on uWebSockets.js. Other ports are Node's own in any case.
set -euo pipefail
cd "$(dirname "$0")/.."

export SLUICE_HTTP_ENGINE=node
echo "tests on Node's own HTTP server, Node $(node --version)"
node test/run.js --project=contract --project=hostile --project=long \
  test/contract/{admin.test,answers,bytes,cors,engine,errors,fidelity,head,idempotency,keep-alive,limits,media,openapi.test} \
  test/hostile/{bodies,connections,descriptors,empty-blocks,engine-differences,fragments,framing,half-bodies,heads} \
  test/hostile/{pipelining,slow,tls}
