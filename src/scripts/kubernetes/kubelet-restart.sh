#!/bin/sh -eu
# Checks whether the kubelet of this node runs the program on disk, or restarts it and waits until its node is Ready with
# that version.
# Arguments: `check` or `apply`, name of the node, version without `v`.
verb=$1 node=$2 version=$3
# A program that was replaced has this name until its process ends.
is_outdated() {
  pid=$(systemctl show -p MainPID --value kubelet.service)
  [ "${pid:-0}" = 0 ] || case $(readlink "/proc/$pid/exe") in *" (deleted)") ;; *) return 1 ;; esac
}
state() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/kubelet.conf --cache-dir /run/kubexm/kubectl --request-timeout=10s \
    get node "$node" -o 'jsonpath={.status.nodeInfo.kubeletVersion} {.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null
}
case $verb in
check)
  ! is_outdated || { echo "it does not run the program on disk"; exit 1; }
  found=$(state) || found=
  [ "$found" = "v$version True" ] || { echo "its node has the state ${found:-unknown}"; exit 1; }
  ;;
apply)
  install -d -m 700 /run/kubexm
  ! is_outdated || systemctl restart kubelet.service
  left=150
  until [ "$(state)" = "v$version True" ]; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || {
      {
        echo "the kubelet does not become Ready with version $version"
        journalctl -u kubelet -n 10 --no-pager -o cat 2>/dev/null | sed 's/^/kubelet: /' || :
        echo "hint: correct what the kubelet reports, then run the same command again"
      } >&2
      exit 1
    }
    sleep 2
  done
  ;;
*) echo "usage: kubelet-restart.sh check|apply" >&2; exit 2 ;;
esac
