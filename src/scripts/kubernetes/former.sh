#!/bin/sh -eu
# Puts back the files that describe the programs of this host, from an archive of the time before an upgrade, after the
# programs themselves have their former version. API server and etcd do not run meanwhile, and start later.
# Verbs: `check`, `apply`.
#   restore  the ID of the restore
#   kind     `kubeadm`, `systemd` or `none`, which runs Kubernetes on this host
#   version  the version of Kubernetes without `v`
: "${verb=}" "${restore=}" "${kind=}" "${version=}"
folder=/var/lib/kubexm/restore/$restore
# Where static pods wait until they start.
kept=/var/lib/kubexm/restore/manifests
files=$folder/former
# Copies a file of the archive to a place, if the archive has it.
# Arguments: path in the archive, path on the host.
put() {
  [ -f "$files$1" ] || return 0
  mkdir -p "$(dirname "$2")"
  cp -p "$files$1" "$2.kubexm-new"
  replace "$2.kubexm-new" "$2"
}
# Copies the files that match patterns to their places.
put_all() {
  for path in "$@"; do
    [ ! -f "$path" ] || put "${path#"$files"}" "${path#"$files"}"
  done
}
put_back() {
  umask 077
  rm -rf "$files"
  mkdir -p "$files" "$kept"
  tar -xpf "$folder/former.tar" -C "$files"
  [ "$kind" = none ] || systemctl stop kubelet.service
  for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    put "/etc/kubernetes/manifests/$name.yaml" "$kept/$name.yaml"
  done
  put_all "$files"/var/lib/kubelet/* "$files"/etc/systemd/system/* "$files"/etc/systemd/system/*.d/* \
    "$files"/etc/kubexm/etcd-member/etcd.env
  [ "$kind" != systemd ] || put_all "$files"/etc/kubernetes/*.yaml
  systemctl daemon-reload
  if [ "$kind" = kubeadm ]; then
    # kubeadm has nothing to do on this node.
    printf '%s\n' "$version" >/var/lib/kubexm/upgraded.new
    replace /var/lib/kubexm/upgraded.new /var/lib/kubexm/upgraded
  fi
  [ "$kind" = none ] || systemctl start kubelet.service
  # It has keys.
  rm -rf "$files"
  : >"$folder/put-back"
}
case $verb in
check) [ -e "$folder/put-back" ] || { echo "the files have the newer version"; exit 1; } ;;
apply) put_back ;;
*) echo "usage: former.sh check|apply" >&2; exit 2 ;;
esac
