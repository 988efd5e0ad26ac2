#!/bin/sh -eu
# Runs `kubeadm reset`.
# Arguments: the runtime's socket.
export PATH="/usr/local/bin:$PATH"
systemctl stop kubelet 2>/dev/null || :
command -v kubeadm >/dev/null || exit 0
# kubexm resets all control planes at the same time. A request to the others for the configuration, or to
# remove this member of etcd, would wait for hosts that are already reset.
rm -f /etc/kubernetes/admin.conf
kubeadm reset -f --skip-phases=remove-etcd-member --cri-socket "$1" >/dev/null 2>&1 || :
