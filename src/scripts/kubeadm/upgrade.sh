#!/bin/sh -eu
# Lets kubeadm upgrade this node, without its kubelet. A run that was interrupted is repeated: kubeadm compares what exists.
# https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-upgrade/
# Verbs: `check`, `apply`.
#   role     `first` for the control plane that upgrades the cluster's own objects, `other` for any other node
#   version  version without `v`
#   patches  directory of patches, if any
#   ignored  preflight errors to ignore, with commas between them
#   config   configuration of `kubeadm init` for the first one
: "${verb=}" "${role=}" "${version=}" "${patches=}" "${ignored=}" "${config=}"
export PATH="/usr/local/bin:$PATH"
umask 077
# The version of the latest upgrade of this node that is complete.
mark=/var/lib/kubexm/upgraded
file=/run/kubexm/upgrade.yaml
content() { cat "$1" 2>/dev/null || :; }
upgrade() {
  set -- "$@" ${patches:+"--patches=$patches"} ${ignored:+"--ignore-preflight-errors=$ignored"}
  left=3
  until said=$(kubeadm upgrade "$@" 2>&1); do
    left=$((left - 1))
    # A check before the first change, which waits 15 seconds for a pod. Where all pods have just started again, it takes longer
    # (https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kubeadm/app/phases/upgrade/health.go).
    case $left-$said in 0-*) ;; *"[ERROR CreateJob]"*"did not complete in"*) sleep 20; continue ;; esac
    printf '%s\n' "$said" | tail -n 20 >&2
    echo "hint: kubeadm keeps the former manifests in /etc/kubernetes/tmp; correct the cause, then run the same command again" >&2
    exit 1
  done
  printf '%s\n' "$said"
}
case $verb in
check) [ "$(content "$mark")" = "$version" ] || { echo "kubeadm has not upgraded it to $version"; exit 1; } ;;
apply)
  install -d -m 700 /run/kubexm
  # kubeadm keeps the lock, too: it goes on when the run that has begun it is killed.
  exec 9>/run/kubexm/kubeadm.lock
  flock 9
  [ "$(content "$mark")" != "$version" ] || exit 0
  rm -rf /etc/kubernetes/tmp/kubeadm-backup-etcd-*
  if [ "$role" = first ]; then
    # kubeadm takes the settings from the cluster, and flags that the new version does not know end a program.
    printf '%s' "$config" >"$file"
    trap 'rm -f "$file"' EXIT
    kubeadm init phase upload-config kubeadm --config "$file" >/dev/null
    upgrade apply "v$version" --yes
  else
    upgrade node
  fi
  # kubeadm's copies of etcd contain every Secret. The state directory has a snapshot.
  rm -rf /etc/kubernetes/tmp/kubeadm-backup-etcd-*
  printf '%s\n' "$version" >"$mark.new"
  replace "$mark.new" "$mark"
  ;;
*) echo "usage: upgrade.sh check|apply" >&2; exit 2 ;;
esac
