#!/bin/sh -eu
# Proves that an API server works with restored data: it is ready, accepts an object, and decrypts Secrets.
# Arguments: the address of the API server, as in `https://192.0.2.11:6443`; the name of the object, a ConfigMap.
server=$1 name=$2
ask() { kubectl --server "$server" "$@"; }
ready=$(ask get --raw '/readyz?verbose' 2>&1) || { printf '%s\n' "$ready" >&2; exit 1; }
printf '%s\n' "$ready" | grep -q '^\[+\]etcd ok' || { echo "its check of etcd is not among those of /readyz" >&2; exit 1; }
# A killed run may have left the object.
ask -n kube-system delete configmap "$name" --ignore-not-found --wait=true >/dev/null
ask -n kube-system create configmap "$name" --from-literal=restored=yes >/dev/null
ask get --raw '/api/v1/secrets?limit=20' >/dev/null
