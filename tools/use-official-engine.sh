#!/usr/bin/env bash
# Puts the author's own release of uWebSockets.js in the place of the repack from npm: edits package.json, installs, and
# records the hashes of the new files. With --edit-only it stops after the edit. docs/supply-chain.md says what was tried.
# Usage: tools/use-official-engine.sh vX.Y.Z [--edit-only]
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-}
if ! [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || [ $# -gt 2 ] || [ "${2:---edit-only}" != --edit-only ]; then
  echo 'Usage: tools/use-official-engine.sh vX.Y.Z [--edit-only]' >&2
  exit 2
fi

npm pkg set "dependencies[uWebSockets.js]=github:uNetworking/uWebSockets.js#$version"
echo "package.json: uWebSockets.js is github:uNetworking/uWebSockets.js#$version"
[ "${2:-}" = --edit-only ] && exit

npm install
tools/engine-hashes.sh > tools/engine.sha256
echo 'tools/engine.sha256 holds the hashes of its files. Now: npm run check; commit package.json, package-lock.json and that file'
