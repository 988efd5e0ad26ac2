#!/bin/sh -eu
# Compares the objects of a manifest with the cluster, or applies them. Server-side apply
# (https://kubernetes.io/docs/reference/using-api/server-side-apply/) stores no copy of the manifest in
# an annotation, which is too small for large manifests.
# Arguments: `check` or `apply`, path of the manifest.
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
set -- "$1" --server-side --force-conflicts --field-manager=kubexm -f "$2"
verb=$1
shift
case $verb in
check)
  [ -e /etc/kubernetes/admin.conf ] || { echo "the cluster does not exist yet"; exit 1; }
  server=
  compare "$@"
  ;;
apply) kubectl apply "$@" >/dev/null ;;
*) echo "usage: manifest.sh check|apply" >&2; exit 2 ;;
esac
