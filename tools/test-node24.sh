#!/usr/bin/env bash
# Runs the unit, contract and hostile tests on Node 24, and so on the newer HTTP engine, whatever Node this system has.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(tools/node24.sh)
export PATH="$folder:$PATH"
echo "unit, contract and hostile tests on Node $(node --version)"
exec npx vitest run --project unit --project contract --project hostile
