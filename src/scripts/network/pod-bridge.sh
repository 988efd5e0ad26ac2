#!/bin/sh -eu
# Lets the bridge of pods follow the pod subnet of a node, which can change in a restore. A bridge with the address of another
# subnet goes, with the pods on it: kubelet starts them again, and the CNI plugin creates the bridge.
# Arguments: `cleared ID` or `clear ID`, which removes all pods on the bridge once in a restore; or `follows` or `follow`, and the
# addresses of the bridge with prefix lengths.
verb=$1
shift
export PATH="/usr/local/bin:$PATH"
crictl() { command crictl --timeout 60s "$@"; }
# Prints what differs between the bridge and the expected addresses. A bridge that has no pods yet has no address.
# Arguments: expected addresses.
differs_in_bridge() {
  for wanted in "$@"; do
    case $wanted in *:*) family=-6 ;; *) family=-4 ;; esac
    found=$(ip -o "$family" addr show dev cni0 scope global 2>/dev/null | awk '{ print $4 }' | paste -sd' ')
    case " $found " in "  " | *" $wanted "*) ;; *) echo "the bridge cni0 has the address $found, not $wanted" ;; esac
  done
}
# Prints the pods on the bridge. Static pods use the network of the host.
pods_on_bridge() {
  listed=$(crictl pods -q) || return
  for pod in $listed; do
    about=$(crictl inspectp "$pod") || return
    # crictl prints one blank or two.
    if printf '%s\n' "$about" | grep -q '"network": *"POD"'; then echo "$pod"; fi
  done
}
timer=kubexm-pod-bridge
without_timer() { systemctl stop "$timer.timer" 2>/dev/null || :; }
start_kubelet() {
  systemctl start kubelet.service
  without_timer
}
# Removes the pods on the bridge, and the bridge. The next pod creates it. A pod that stays would have no network, and
# kubelet would not start it again.
remove_pods() {
  without_timer
  # systemd starts the kubelet if this run ends before it does so, and no other run follows.
  systemd-run --quiet --collect --unit="$timer" --on-active=900 systemctl start kubelet.service
  systemctl stop kubelet.service
  round=0 said='' pods=''
  until pods=$(pods_on_bridge) && [ -z "$pods" ]; do
    round=$((round + 1))
    [ "$round" -lt 10 ] || {
      start_kubelet
      echo "pods do not end: $(echo "$pods" | paste -sd' ') $said" >&2
      exit 1
    }
    [ "$round" = 1 ] || sleep 3
    # shellcheck disable=SC2086 # one word for each pod
    [ -z "$pods" ] || said=$(crictl rmp -f $pods 2>&1) || :
  done
  ip link delete cni0 2>/dev/null || :
  # cri-dockerd and iSulad read the files of the plugin every five seconds.
  sleep 6
  start_kubelet
}
# Exists after `clear`.
mark=/var/lib/kubexm/restore/$1/cleared
case $verb in
cleared) [ -e "$mark" ] || { echo "has pods of the time before the restore"; exit 1; } ;;
clear)
  umask 077
  mkdir -p "$(dirname "$mark")"
  # Without this file, the CNI plugin waits until flannel has written the subnet that the node has now. flannel writes it when it starts.
  rm -f /run/flannel/subnet.env
  flannel=$(flannels)
  # shellcheck disable=SC2086 # one word for each container
  [ -z "$flannel" ] || crictl stop --timeout 10 $flannel >/dev/null
  remove_pods
  : >"$mark"
  ;;
follows)
  differs=$(differs_in_bridge "$@")
  [ -z "$differs" ] || { echo "$differs"; exit 1; }
  ;;
follow) [ -z "$(differs_in_bridge "$@")" ] || remove_pods ;;
*) echo "usage: pod-bridge.sh cleared|clear|follows|follow" >&2; exit 2 ;;
esac
