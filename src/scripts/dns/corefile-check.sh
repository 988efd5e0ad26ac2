#!/bin/sh -eu
# Compares the Corefile with the cluster. A Corefile that kubexm has not written belongs to kubeadm or to the
# user, and does not change unless the cluster file configures DNS.
# Arguments: path of the manifest.
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s "$@"
}
owner=$(kubectl -n kube-system get configmap coredns --ignore-not-found \
  -o jsonpath='{.metadata.labels.app\.kubernetes\.io/managed-by}')
[ "$owner" = kubexm ] || exit 0
kubectl diff --server-side --force-conflicts --field-manager=kubexm -f "$1" >/dev/null 2>&1 ||
  { echo differs; exit 1; }
