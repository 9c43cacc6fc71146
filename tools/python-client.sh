#!/usr/bin/env bash
# Generates a client for Python from openapi.yaml, in a virtual environment of its own that has what the client needs:
# tools/python-client.sh FOLDER. Then FOLDER/venv/bin/python, started in FOLDER, can import generated.
set -euo pipefail
folder=${1:?the folder to write to}
document=$(cd "$(dirname "$0")/.." && pwd)/openapi.yaml
generator=openapi-python-client==0.29.1

mkdir -p "$folder"
cd "$folder"
python3 -m venv venv || { echo 'python-client: this needs python3 with its module venv: on Debian, python3-venv' >&2; exit 3; }
venv/bin/python -m pip install -q --disable-pip-version-check "$generator" ||
  { echo "python-client: pip does not find $generator: this needs the network, or an index that has it" >&2; exit 4; }
venv/bin/openapi-python-client generate --path "$document" --meta none --output-path generated --overwrite
venv/bin/python -m compileall -q generated
