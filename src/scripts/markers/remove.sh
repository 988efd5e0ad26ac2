#!/bin/sh -eu
# Removes marker files.
# Arguments: `kubeadm`, `kubernetes-node` or `encryption`.
done=/var/lib/kubexm/done
case $1 in
kubeadm) rm -f "$done"/kubeadm-* ;;
kubernetes-node) rm -f "$done/kubernetes-node" ;;
encryption) rm -f "$done"/encryption-* ;;
*) echo "usage: remove.sh kubeadm|kubernetes-node|encryption" >&2; exit 2 ;;
esac
