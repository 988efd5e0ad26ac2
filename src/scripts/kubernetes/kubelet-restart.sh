#!/bin/sh -eu
# Restarts the kubelet of this node with the program on disk. Before, it stops the programs that the new kubelet would kill: a
# kubelet of another minor version computes other UIDs for static pods, and gives pods that it does not know one second to end.
# Verbs: `started` and `start`, which end what an interrupted run has left; `stopped`, `stop`; `check`, `apply`. `version` has no
# `v`.
: "${verb=}" "${version=}"
export PATH="/usr/local/bin:$PATH"
pid() { systemctl show -p MainPID --value kubelet.service; }
# A program that was replaced has this name until its process ends.
is_outdated() {
  pid=$(pid)
  [ "${pid:-0}" = 0 ] || case $(readlink "/proc/$pid/exe") in *" (deleted)") ;; *) return 1 ;; esac
}
# Prints the minor version of the kubelet that runs, as in `1.36`.
running_minor() { "/proc/$(pid)/exe" --version 2>/dev/null | sed -n 's/^Kubernetes v\([0-9]*\.[0-9]*\)\..*/\1/p'; }
# Prints the running containers of API server and etcd, in the order in which they stop.
containers() {
  for name in kube-apiserver etcd; do crictl ps --state running --label io.kubernetes.pod.namespace=kube-system --name "^$name\$" -q 2>/dev/null; done
}
# The API server keeps answering until load balancers have noticed that it ends.
stop_programs() {
  for container in $(containers); do crictl stop --timeout 30 "$container" >/dev/null; done
}
# systemd starts the kubelet if this run ends before it does so, and no other run follows.
timer=kubexm-kubelet-start
without_timer() { systemctl stop "$timer.timer" 2>/dev/null || :; }
case $verb in
started)
  found=$(pid)
  [ "${found:-0}" != 0 ] || { echo "the kubelet is stopped"; exit 1; }
  ;;
start)
  stop_programs
  without_timer
  systemctl start kubelet.service
  ;;
stopped)
  is_outdated || exit 0
  [ "$(running_minor)" != "${version%.*}" ] || exit 0
  found=$(containers)
  [ -z "$found" ] || { echo "programs run that the new kubelet would kill"; exit 1; }
  ;;
stop)
  without_timer
  systemd-run --quiet --collect --unit="$timer" --on-active=120 systemctl start kubelet.service
  systemctl stop kubelet.service
  stop_programs
  ;;
check) ! is_outdated || { echo "it does not run the program on disk"; exit 1; } ;;
apply)
  systemctl restart kubelet.service
  without_timer
  ;;
*) echo "usage: kubelet-restart.sh started|start|stopped|stop|check|apply" >&2; exit 2 ;;
esac
