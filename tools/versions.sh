# The programs that CI fetches, each in one version, so that what is tried today is what was tried yesterday. To be sourced.
# A test holds every script to these names. The images of containers name their version where they stand.

K6=v1.8.1
NATS=v2.15.3
FUNC_E=v1.6.0
ENVOY=1.36.2
KUBECTL=v1.34.1
ORAS=v1.3.0
NODE24=24.21.0
NPM=11.21.1
