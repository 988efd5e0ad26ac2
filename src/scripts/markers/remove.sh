#!/bin/sh -eu
# Removes marker files.
# Arguments: `kubeadm`, or `kubernetes-node`.
done=/var/lib/kubexm/done
case $1 in
kubeadm) rm -f "$done"/kubeadm-* ;;
kubernetes-node) rm -f "$done/kubernetes-node" ;;
*) echo "usage: remove.sh kubeadm|kubernetes-node" >&2; exit 2 ;;
esac
