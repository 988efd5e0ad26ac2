#!/bin/sh -eu
# Ends what kubeadm and its kubelet started, and removes the files that kubeadm created. `kubeadm reset` would also delete
# files of the site, because it empties /etc/kubernetes/pki and /etc/kubernetes/manifests. All control planes are reset
# at the same time, so none asks another to remove its member of etcd.
# Arguments: the runtime's socket; the data directory of kubeadm's etcd. Receipts of earlier versions have the first only.
export PATH="/usr/local/bin:$PATH"
data=${2:-}
systemctl stop kubelet 2>/dev/null || :
if command -v crictl >/dev/null; then
  pods=$(crictl --runtime-endpoint "$1" pods -q 2>/dev/null || :)
  [ -z "$pods" ] || printf '%s\n' "$pods" | xargs crictl --runtime-endpoint "$1" rmp -f >/dev/null 2>&1 || :
fi
# Volumes of pods. /proc/mounts has \040 for a blank in a path.
awk 'index($2, "/var/lib/kubelet/") == 1 { gsub(/\\040/, " ", $2); print $2 }' /proc/mounts | sort -r |
  while IFS= read -r mount; do
    umount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null || :
  done
if cd /var/lib/kubelet 2>/dev/null; then
  rm -f .kubexm-new config.yaml instance-config.yaml kubeadm-flags.env cpu_manager_state memory_manager_state
  rm -rf --one-file-system pki pods 2>/dev/null || :
fi
cd /etc/kubernetes 2>/dev/null || exit 0
# A restore of a backup leaves the former data beside the data.
data=${data:-/var/lib/etcd}
[ ! -e manifests/etcd.yaml ] || rm -rf --one-file-system "$data/member" "$data"/member.before-* "$data"/restore-*
rm -f manifests/.kubexm-new
for name in kube-apiserver kube-controller-manager kube-scheduler etcd; do rm -f "manifests/$name.yaml"; done
# The script of `kubeadm init` copies these.
for pod in /etc/kubexm/static-pods/*.yaml; do rm -f "manifests/${pod##*/}"; done
for name in admin super-admin kubelet bootstrap-kubelet controller-manager scheduler; do rm -f "$name.conf"; done
for name in ca apiserver apiserver-etcd-client apiserver-kubelet-client front-proxy-ca front-proxy-client \
  etcd/ca etcd/server etcd/peer etcd/healthcheck-client; do
  rm -f "pki/$name.crt" "pki/$name.key"
done
rm -f pki/sa.key pki/sa.pub
rmdir pki/etcd pki manifests 2>/dev/null || :
