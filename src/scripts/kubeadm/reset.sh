#!/bin/sh -eu
# Undoes what kubeadm knows of.
# Arguments: the runtime's socket.
export PATH="/usr/local/bin:$PATH"
systemctl stop kubelet 2>/dev/null || :
command -v kubeadm >/dev/null || exit 0
# All control planes are reset at once: to ask the others for the configuration, or to remove this one from
# etcd's members, would only wait for hosts that are gone already.
rm -f /etc/kubernetes/admin.conf
kubeadm reset -f --skip-phases=remove-etcd-member --cri-socket "$1" >/dev/null 2>&1 || :
