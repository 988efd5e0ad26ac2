#!/bin/sh -eu
# Compares the Corefile with the cluster. A Corefile that kubexm has not written belongs to kubeadm or to the
# user, and does not change unless the cluster file configures DNS.
# Arguments: path of the manifest.
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s "$@"
}
# Compares objects with the cluster. kubectl diff ends with 1 if they differ, and with more if it fails, as before their kind exists.
# Arguments: those of kubectl diff. `server` is the URL of an API server that does not wait long, or empty for the endpoint.
compare() {
  status=0
  said=$(kubectl ${server:+--server "$server" --request-timeout=10s} diff "$@" 2>&1 >/dev/null) || status=$?
  [ "$status" != 0 ] || exit 0
  [ "$status" != 1 ] || { echo differs; exit 1; }
  kubectl ${server:+--server "$server" --request-timeout=10s} get --raw /readyz >/dev/null 2>&1 ||
    { printf 'the API server does not answer: %s\n' "$said" | tail -n 1 >&2; exit 75; }
  printf 'cannot be compared: %s\n' "$said" | tail -n 1
  exit 1
}
[ -e /etc/kubernetes/admin.conf ] || { echo "the cluster does not exist yet"; exit 1; }
owner=$(kubectl -n kube-system get configmap coredns --ignore-not-found \
  -o jsonpath='{.metadata.labels.app\.kubernetes\.io/managed-by}') || exit 75
[ "$owner" = kubexm ] || exit 0
server=
compare --server-side --force-conflicts --field-manager=kubexm -f "$1"
