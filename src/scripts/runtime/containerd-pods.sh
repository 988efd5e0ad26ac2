#!/bin/sh -eu
# Ends all pods of this node before a containerd of another major or minor version replaces its own, also static pods and those
# of DaemonSets: shims and sandboxes of the former containerd would keep running with the new one. The kubelet is stopped
# until `start`.
# Verbs: `end`; `started` and `start`; `settled` and `settle`, after the wait for static pods, which kubeadm needs; `resume`, which
# starts what a run that was killed has left stopped, and prints `started` if there was something; `life`, with the name of the
# node, which prints when the kubelet started, and the node, unless an API server of this host is not ready. It prints nothing
# before `end` and after `settle`.
verb=$1
export PATH="/usr/local/bin:$PATH"
# Exists from `end` to `settle`. Its time is that of the start of the kubelet.
mark=/var/lib/kubexm/pods-ended
timer=kubexm-pods
# Held while pods end or start.
lock=/run/kubexm/pods.lock
# Starts containerd and the kubelet if no run follows a run that was killed, so that the lease of its lock ends.
# shellcheck disable=SC2016 # the text is a script
watch='exec 9>"$3"
flock -n 9 || exit 0
[ -e "$1" ] || { systemctl stop "$2.timer"; exit; }
end=$(sed -n 1p /run/kubexm.lock 2>/dev/null || :)
case $end in "" | *[!0-9]*) end=0 ;; esac
[ "$end" -le "$(cut -d. -f1 /proc/uptime)" ] || exit 0
systemctl start containerd.service kubelet.service
rm -f "$1"
systemctl stop "$2.timer"'
# Prints the pods in the network of the host, or those in the network of pods.
# Arguments: `NODE` or `POD`.
pods_in() {
  for pod in $(crictl pods -q); do
    network=$(crictl inspectp -o go-template --template '{{.status.linux.namespaces.options.network}}' "$pod" 2>/dev/null || :)
    case $1-$network in NODE-NODE) echo "$pod" ;; POD-NODE) ;; POD-*) echo "$pod" ;; esac
  done
}
# Lets containers end at the same time, each within half a minute.
stop_containers() { xargs -r -n 1 -P 16 crictl stop --timeout 30 >/dev/null 2>&1 || :; }
# Ends pods, and prints the last errors of those that do not end.
end_pods() {
  [ $# -gt 0 ] || return 0
  for pod; do crictl ps -q --state running --pod "$pod" 2>/dev/null || :; done | stop_containers
  tries=3
  until said=$(crictl rmp -f "$@" 2>&1); do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { printf '%s\n' "$said" | grep -v '^Removed' | tail -n 5; return 1; }
    sleep 2
    # shellcheck disable=SC2046 # one word for each pod
    set -- $(for pod; do crictl pods -q --id "$pod" 2>/dev/null || :; done)
    [ $# -gt 0 ] || return 0
  done
}
# Keeps the time. It may run already.
start_kubelet() {
  systemctl is-active --quiet kubelet.service || touch "$mark"
  systemctl start kubelet.service
}
settle() {
  systemctl stop "$timer.timer" 2>/dev/null || :
  rm -f "$mark"
  sync "$(dirname "$mark")" 2>/dev/null || sync
}
# Ends the script. The kubelet must not stay stopped.
# Arguments: what the runtime said.
refuse() {
  {
    echo "the pods of this host do not end, so its containerd cannot be replaced"
    [ -z "$1" ] || printf '%s\n' "$1"
    if start_kubelet && settle; then echo "the kubelet runs again"; fi
    echo "hint: crictl pods lists them; correct the cause, then run the same command again"
  } >&2
  exit 1
}
end() {
  : >"$mark"
  sync "$mark" "$(dirname "$mark")" 2>/dev/null || sync
  # Those of earlier runs.
  systemctl stop kubexm-kubelet-start.timer "$timer.timer" 2>/dev/null || :
  systemd-run --quiet --collect --unit="$timer" '--on-calendar=*:*:00/20' --timer-property=AccuracySec=1s \
    sh -euc "$watch" kubexm "$mark" "$timer" "$lock"
  systemctl stop kubelet.service
  # A run that was killed may have stopped it before its shims ended.
  systemctl is-active --quiet containerd.service || systemctl start containerd.service || :
  if systemctl is-active --quiet containerd.service; then
    # Network plugins need the pods of the host's network, and clients need the API server, until the others have ended.
    # shellcheck disable=SC2046 # one word for each pod
    said=$(end_pods $(pods_in POD)) || refuse "$said"
    # kube-vip gives its address away before its API server ends, and the API server answers until load balancers have
    # noticed.
    for name in kube-vip kube-apiserver etcd; do
      crictl ps --state running --label io.kubernetes.pod.namespace=kube-system --name "^$name\$" -q 2>/dev/null | stop_containers
    done
    # shellcheck disable=SC2046 # one word for each pod
    said=$(end_pods $(pods_in NODE)) || refuse "$said"
    found=$(crictl pods -q) || refuse "$found"
    [ -z "$found" ] || refuse "$found"
  fi
}
case $verb in end | start | settle | resume) alone "$lock" ;; esac
case $verb in
end) end ;;
started) [ ! -e "$mark" ] || { echo "the kubelet is stopped"; exit 1; } ;;
start) start_kubelet ;;
life)
  [ -e "$mark" ] || exit 0
  date -u -r "$mark" +%Y-%m-%dT%H:%M:%SZ
  [ ! -e /etc/kubernetes/manifests/kube-apiserver.yaml ] || api controller-manager get --raw /readyz >/dev/null
  api kubelet get node "$2" -o json
  ;;
settled) [ ! -e "$mark" ] || { echo "the kubelet has just started"; exit 1; } ;;
settle) settle ;;
resume)
  [ -e "$mark" ] || exit 0
  # Its own turn in the plan repairs a containerd that does not start.
  systemctl start containerd.service || exit 0
  start_kubelet
  echo started
  ;;
*) echo "usage: containerd-pods.sh end|started|start|life|settled|settle|resume" >&2; exit 2 ;;
esac
