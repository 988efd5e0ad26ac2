#!/bin/sh -eu
# Ends what kubeadm and its kubelet started, and removes the files that kubeadm created. `kubeadm reset` would also delete
# files of the site, because it empties /etc/kubernetes/pki and /etc/kubernetes/manifests. All control planes are reset
# at the same time, so none asks another to remove its member of etcd.
# Arguments: the runtime's socket; the data directory of kubeadm's etcd. Receipts of earlier versions have the first only.
export PATH="/usr/local/bin:$PATH"
data=${2:-/var/lib/etcd}
systemctl stop kubelet 2>/dev/null || :
if command -v crictl >/dev/null; then
  pods=$(crictl --runtime-endpoint "$1" pods -q 2>/dev/null || :)
  [ -z "$pods" ] || printf '%s\n' "$pods" | xargs crictl --runtime-endpoint "$1" rmp -f >/dev/null 2>&1 || :
fi
unmount_below /var/lib/kubelet
rm -rf --one-file-system /var/lib/kubelet/pki /var/lib/kubelet/pods 2>/dev/null || :
# A restore of a backup leaves the former data beside the data.
[ ! -e /etc/kubernetes/manifests/etcd.yaml ] || rm -rf --one-file-system "$data/member" "$data"/member.before-* "$data"/restore-*
rm -f /var/lib/kubelet/.kubexm-new /etc/kubernetes/manifests/.kubexm-new
kubeadm_files | xargs rm -f
# The script of `kubeadm init` copies these.
for pod in /etc/kubexm/static-pods/*.yaml; do rm -f "/etc/kubernetes/manifests/${pod##*/}"; done
cd /etc/kubernetes 2>/dev/null || exit 0
rmdir pki/etcd pki manifests 2>/dev/null || :
