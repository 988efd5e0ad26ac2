#!/bin/sh -eu
# Runs `kubeadm init` or `kubeadm join`, or removes what failed runs of them created on this host.
# `kubeadm reset` removes more: everything in /etc/kubernetes/manifests, /etc/kubernetes/pki and /var/lib/kubelet, and
# every pod of the runtime
# (https://github.com/kubernetes/kubernetes/blob/master/cmd/kubeadm/app/cmd/phases/reset/cleanupnode.go).
# Verbs: `init`, `join`, `clean-up`.
#   socket       the runtime's socket
#   etcd         the data directory of kubeadm's etcd on this host, if any. A task before has removed the member of a failed join
#                from etcd: a member that returns without its data does not start.
#   config       for `init` the path of the configuration
#   static_pods  `yes` if the kubelet must run the static pods of the load balancer before `init`
# Environment of `join`: INPUT, path of the configuration.
: "${verb=}" "${socket=}" "${etcd=}" "${config=}" "${static_pods=}"
export PATH="/usr/local/bin:$PATH"
# What existed before the first attempt that was not cleaned up: paths, and `pod ID`.
before=/var/lib/kubexm/kubeadm-before
# Prints the existing paths among those that kubeadm and its kubelet create.
present() (
  files=$(kubeadm_files) || exit
  set -- /var/lib/kubelet/pki/* /var/lib/kubelet/pods/* ${etcd:+"$etcd/member"}
  if [ "$static_pods" = yes ]; then
    for pod in /etc/kubexm/static-pods/*.yaml; do set -- "$@" "/etc/kubernetes/manifests/${pod##*/}"; done
  fi
  # shellcheck disable=SC2086 # none of these paths has a blank
  ls -d "$@" $files 2>/dev/null || :
)
# Prints the pods of the runtime.
# Arguments: options of `crictl pods`.
pods() {
  command -v crictl >/dev/null || return 0
  ids=$(crictl --runtime-endpoint "$socket" --timeout 30s pods -q "$@") || return
  printf '%s\n' "$ids" | sed -n 's/^./pod &/p'
}
begin() (
  umask 077
  mkdir -p /var/lib/kubexm
  listed=$(pods)
  { present; printf '%s\n' "$listed"; } >"$before.new"
  replace "$before.new" "$before"
)
# Reads what exists and prints what the failed attempts created.
new() {
  if [ -e "$before" ]; then
    grep -Fvx -f "$before" || :
    return
  fi
  # An earlier version of kubexm made no list, or this attempt ended before it made one.
  for mark in /var/lib/kubexm/done/kubeadm-*.begun; do
    [ -e "$mark" ] || continue
    while IFS= read -r path; do [ -z "$path" ] || find "$path" -prune -newer "$mark"; done
  done
}
# Keeps the logs of the failed attempts until the next failure or a reset.
keep_logs() (
  umask 077
  mkdir -p /var/lib/kubexm/failed
  journalctl -u kubelet -n 500 --no-pager >/var/lib/kubexm/failed/kubelet.log 2>&1 || :
  tail -n 200 /var/log/pods/kube-system_*/*/*.log >/var/lib/kubexm/failed/pods.log 2>/dev/null || :
)
remove_pods() {
  listed=$(pods) || exit 1
  # Without a list of earlier pods, the kubelet of this attempt started them: kubexm starts no other.
  [ ! -e "$before" ] || listed=$(printf '%s\n' "$listed" | new)
  listed=$(printf '%s\n' "$listed" | sed -n 's/^pod //p')
  [ -n "$listed" ] || return 0
  # A pod whose network cannot be removed stays in the list, and does not run.
  printf '%s\n' "$listed" | xargs crictl --runtime-endpoint "$socket" --timeout 60s rmp -f >/dev/null 2>&1 || :
  running=$(pods --state ready) || exit 1
  for id in $listed; do
    case "$running" in *"pod $id"*) echo "pod $id of the failed attempt does not end" >&2; exit 1 ;; esac
  done
}
# It also runs where the shell ignores the status of its commands.
clean_up() (
  existing=$(present) || exit 1
  created=$(printf '%s\n' "$existing" | new)
  [ -n "$created" ] || exit 0
  keep_logs
  # It must stop before the pods, because it starts them again.
  systemctl stop kubelet 2>/dev/null || :
  remove_pods
  # A reset looks at etcd.yaml to remove the data of etcd, so these are last.
  last='^/etc/kubernetes/(admin[.]conf|manifests/etcd[.]yaml|pki/etcd/)'
  { printf '%s\n' "$created" | grep -Ev "$last" || :; printf '%s\n' "$created" | grep -E "$last" || :; } |
    while IFS= read -r path; do unmount_below "$path"; rm -rf --one-file-system "$path" || exit 1; done || exit 1
  rmdir /etc/kubernetes/pki/etcd /etc/kubernetes/pki /etc/kubernetes/manifests /var/lib/kubelet/pki \
    /var/lib/kubelet/pods 2>/dev/null || :
)
# Prints why kubeadm failed, and where more is.
# Arguments: what kubeadm printed.
explain() {
  printf '%s\n' "$1"
  # The cause of most failures is that the kubelet does not start, and kubeadm names it as a time limit of its own.
  [ ! -e /var/lib/kubelet/config.yaml ] ||
    journalctl -u kubelet -n 10 --no-pager -o cat 2>/dev/null | sed 's/^/kubelet: /' || :
  echo "hint: on this host, read journalctl -u kubelet and /var/log/pods. The next install keeps a copy in" \
    "/var/lib/kubexm/failed before it removes what this attempt created"
}
init() {
  [ "$static_pods" != yes ] || install -D -m 644 -t /etc/kubernetes/manifests /etc/kubexm/static-pods/*.yaml
  said=$(kubeadm init --config "$config" 2>&1 >/dev/null) || { explain "$said" >&2; exit 1; }
}
# A node that died while it joined stays Ready in the cluster until its lease expires after some 50
# seconds. kubeadm refuses the name of a Ready node, so the join waits.
join() {
  left=12
  until said=$(kubeadm join --config "$INPUT" 2>&1 >/dev/null); do
    case $said in *"already exists in the cluster"*) ;; *) left=0 ;; esac
    if [ "$left" = 0 ]; then explain "$said" >&2; exit 1; fi
    left=$((left - 1))
    clean_up || :
    sleep 10
  done
}
case $verb in
init | join) begin; "$verb" ;;
clean-up) clean_up ;;
*) echo "usage: node.sh init|join|clean-up" >&2; exit 2 ;;
esac
