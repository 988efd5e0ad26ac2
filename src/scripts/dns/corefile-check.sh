#!/bin/sh -eu
# Compares the Corefile with the cluster. A Corefile that kubexm has not written belongs to kubeadm or to the
# user, and does not change unless the cluster file configures DNS.
# Arguments: path of the manifest.
[ -e /etc/kubernetes/admin.conf ] || { echo "the cluster does not exist yet"; exit 1; }
owned=$(kubectl -n kube-system get configmaps --field-selector metadata.name=coredns \
  --selector app.kubernetes.io/managed-by=kubexm -o name) || exit 75
[ -n "$owned" ] || exit 0
compare '' --server-side --force-conflicts --field-manager=kubexm -f "$1"
