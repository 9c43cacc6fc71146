#!/usr/bin/env bash
# Prints the SHA-256 of each file of the installed engine that Node may load, as tools/engine.sha256 records them.
# Usage: tools/engine-hashes.sh | diff tools/engine.sha256 -
set -euo pipefail
cd "$(dirname "$0")/../node_modules/uWebSockets.js"
export LC_ALL=C
sha256sum -- *.js *.mjs *.node package.json
