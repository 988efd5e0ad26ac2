#!/bin/sh -eu
# Compares the objects of a manifest with the cluster, or applies them. Server-side apply
# (https://kubernetes.io/docs/reference/using-api/server-side-apply/) stores no copy of the manifest in
# an annotation, which is too small for large manifests.
# Arguments: `check` or `apply`, path of the manifest.
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s "$@"
}
set -- "$1" --server-side --force-conflicts --field-manager=kubexm -f "$2"
verb=$1
shift
case $verb in
check) kubectl diff "$@" >/dev/null 2>&1 || { echo differs; exit 1; } ;;
apply) kubectl apply "$@" >/dev/null ;;
*) echo "usage: manifest.sh check|apply" >&2; exit 2 ;;
esac
