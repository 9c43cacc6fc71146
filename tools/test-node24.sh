#!/usr/bin/env bash
# Runs what touches the HTTP engine on Node 24 too, and so on the newer engine: the unit, contract and hostile tests,
# the long hostile ones among them.
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
echo "unit, contract and hostile tests on Node $(node --version)"
# Without test/simulator and test/differential, which open no port.
npx vitest run --project=unit --project=contract --project=hostile test/unit test/contract test/hostile
npx vitest run --project=long test/hostile
