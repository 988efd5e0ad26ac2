#!/bin/sh -eu
# Compares the Corefile with the cluster. A Corefile that kubexm has not written belongs to kubeadm or to the
# user, and does not change unless the cluster file configures DNS.
# Arguments: path of the manifest.
[ -e /etc/kubernetes/admin.conf ] || { echo "the cluster does not exist yet"; exit 1; }
owner=$(kubectl -n kube-system get configmap coredns --ignore-not-found \
  -o jsonpath='{.metadata.labels.app\.kubernetes\.io/managed-by}') || exit 75
[ "$owner" = kubexm ] || exit 0
compare '' --server-side --force-conflicts --field-manager=kubexm -f "$1"
