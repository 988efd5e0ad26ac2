#!/bin/sh -eu
# Prints for each node whether the API server can connect to its kubelet: `reached NODE` or `missed NODE REASON`.
# Then prints `requests` and the certificate signing requests of kubelets as JSON.
# Arguments: names of nodes.
look() {
  if said=$(kubectl --request-timeout=5s get --raw "/api/v1/nodes/$1/proxy/healthz" 2>&1); then
    printf 'reached %s\n' "$1"
  else
    printf 'missed %s %s\n' "$1" "$(printf '%s\n' "$said" | tail -n 1)"
  fi
}
# Eight at a time.
count=0
for name in "$@"; do
  look "$name" &
  count=$((count + 1))
  [ $((count % 8)) -ne 0 ] || wait
done
wait
echo requests
kubectl --request-timeout=10s get csr \
  --field-selector spec.signerName=kubernetes.io/kubelet-serving -o json
