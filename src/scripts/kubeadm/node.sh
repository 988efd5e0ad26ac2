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
  k=/etc/kubernetes l=/var/lib/kubelet
  set -- "$k/pki/sa.key" "$k/pki/sa.pub" "$l/config.yaml" "$l/instance-config.yaml" "$l/kubeadm-flags.env" \
    "$l/cpu_manager_state" "$l/memory_manager_state" "$l"/pki/* "$l"/pods/*
  for name in admin super-admin kubelet bootstrap-kubelet controller-manager scheduler; do set -- "$@" "$k/$name.conf"; done
  for name in kube-apiserver kube-controller-manager kube-scheduler etcd; do set -- "$@" "$k/manifests/$name.yaml"; done
  for name in ca apiserver apiserver-etcd-client apiserver-kubelet-client front-proxy-ca front-proxy-client \
    etcd/ca etcd/server etcd/peer etcd/healthcheck-client; do
    set -- "$@" "$k/pki/$name.crt" "$k/pki/$name.key"
  done
  if [ "$static_pods" = yes ]; then
    for pod in /etc/kubexm/static-pods/*.yaml; do set -- "$@" "$k/manifests/${pod##*/}"; done
  fi
  [ -z "$etcd" ] || set -- "$@" "$etcd/member"
  ls -d "$@" 2>/dev/null || :
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
  existing=$(present)
  existing_pods=$(pods)
  printf '%s\n' "$existing" "$existing_pods" >"$before.new"
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
    while IFS= read -r path; do
      [ -z "$path" ] || find "$path" -prune -newer "$mark"
    done
  done
}
# Keeps the logs of the failed attempts until the next failure or a reset.
keep_logs() (
  umask 077
  kept=/var/lib/kubexm/failed
  mkdir -p "$kept"
  journalctl -u kubelet -n 500 --no-pager >"$kept/kubelet.log" 2>&1 || :
  tail -n 200 /var/log/pods/kube-system_*/*/*.log >"$kept/pods.log" 2>/dev/null || :
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
# Arguments: path.
remove() {
  # /proc/mounts has \040 for a blank in a path.
  awk -v path="$1/" '{ gsub(/\\040/, " ", $2) } index($2, path) == 1 { print $2 }' /proc/mounts | sort -r |
    while IFS= read -r mount; do
      umount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null || :
    done
  rm -rf --one-file-system "$1"
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
    while IFS= read -r path; do remove "$path" || exit 1; done || exit 1
  rmdir /etc/kubernetes/pki/etcd /etc/kubernetes/pki /etc/kubernetes/manifests /var/lib/kubelet/pki \
    /var/lib/kubelet/pods 2>/dev/null || :
)
# Prints why kubeadm failed, and where more is.
# Arguments: what kubeadm printed.
explain() {
  printf '%s\n' "$1"
  # The cause of most failures is that the kubelet does not start, and kubeadm names it as a time limit of its own.
  if [ -e /var/lib/kubelet/config.yaml ]; then
    journalctl -u kubelet -n 10 --no-pager -o cat 2>/dev/null | sed 's/^/kubelet: /' || :
  fi
  echo "hint: on this host, read journalctl -u kubelet and /var/log/pods. The next install keeps a copy in" \
    "/var/lib/kubexm/failed before it removes what this attempt created"
}
init() {
  begin
  if [ "$static_pods" = yes ]; then
    mkdir -p /etc/kubernetes/manifests
    install -m 644 /etc/kubexm/static-pods/*.yaml /etc/kubernetes/manifests/
  fi
  said=$(kubeadm init --config "$config" 2>&1 >/dev/null) || { explain "$said" >&2; exit 1; }
}
# A node that died while it joined stays Ready in the cluster until its lease expires after some 50
# seconds. kubeadm refuses the name of a Ready node, so the join waits.
join() {
  begin
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
init) init ;;
join) join ;;
clean-up) clean_up ;;
*) echo "usage: node.sh init|join|clean-up" >&2; exit 2 ;;
esac
