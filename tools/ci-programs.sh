#!/usr/bin/env bash
# Installs what the long tests want beside the packages of Debian, and names them as not run without: for CI, as root, with Go.
set -euo pipefail

source "$(dirname "$0")/versions.sh"

# Under names that change with no release of ours.
export GOBIN=/usr/local/bin
go install "go.k6.io/k6@$K6"
go install "github.com/nats-io/nats-server/v2@$NATS"
go install "github.com/tetratelabs/func-e@$FUNC_E"

apt-get update -q
apt-get install -yq --no-install-recommends ca-certificates curl prometheus-alertmanager python3 python3-venv

curl -fsSLo /usr/local/bin/kubectl "https://dl.k8s.io/release/$KUBECTL/bin/linux/amd64/kubectl"
curl -fsSL "https://dl.k8s.io/release/$KUBECTL/bin/linux/amd64/kubectl.sha256" | sed 's|$|  /usr/local/bin/kubectl|' | sha256sum --check
chmod +x /usr/local/bin/kubectl

# It compares the checksum of what it loads.
func-e use "$ENVOY"
ln -sf "$(func-e which)" /usr/local/bin/envoy

k6 version && nats-server --version && kubectl version --client && envoy --version && prometheus-alertmanager --version
