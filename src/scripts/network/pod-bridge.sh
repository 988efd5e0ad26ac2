#!/bin/sh -eu
# Lets the bridge of pods follow the pod subnet of a node, which can change in a restore. A bridge with the address of another
# subnet goes, with the pods on it: kubelet starts them again, and the CNI plugin creates the bridge. flannel starts once more,
# because it does not notice another subnet of a node in each case.
# Arguments: `cleared ID` or `clear ID`, which removes all pods on the bridge once in a restore; or `follows` or `follow`, with
# `bridge`, or `flannel` and the ID of the restore, and the addresses of the bridge with prefix lengths.
verb=$1 plugin=''
shift
case $verb in follow*) plugin=$1; shift ;; esac
if [ "$plugin" != bridge ]; then
  folder=/var/lib/kubexm/restore/$1
  shift
fi
export PATH="/usr/local/bin:$PATH"
crictl() { command crictl --timeout 60s "$@"; }
# Prints the containers of flannel that run.
flannels() {
  crictl ps -q --state running --label io.kubernetes.pod.namespace=kube-flannel --name '^kube-flannel$' || { echo "the container runtime does not answer" >&2; exit 1; }
}
# Arguments: address, expected addresses.
is_one_of() {
  searched=$1
  shift
  for one in "$@"; do [ "$one" != "$searched" ] || return 0; done
  return 1
}
# Prints what differs between the subnets of flannel and the expected ones.
# Arguments: expected addresses.
differs_in_flannel() {
  found=$(sed -n -E 's/^FLANNEL_(IPV6_)?SUBNET=//p' /run/flannel/subnet.env 2>/dev/null) || :
  # shellcheck disable=SC2086 # one word for each subnet
  [ "$(echo $found | wc -w)" = "$#" ] || { echo "flannel has" ${found:-no subnet}", not $*"; return; }
  for subnet in $found; do
    is_one_of "$subnet" "$@" || { echo "flannel has $subnet, not $*"; return; }
  done
}
# Prints what differs between the bridge and the expected addresses. A bridge that has no pods yet has no address.
# Arguments: expected addresses.
differs_in_bridge() {
  for wanted in "$@"; do
    case $wanted in *:*) family=-6 ;; *) family=-4 ;; esac
    # shellcheck disable=SC2046 # one word for each address
    set -- $(ip -o "$family" addr show dev cni0 scope global 2>/dev/null | awk '{ print $4 }')
    [ $# = 0 ] || is_one_of "$wanted" "$@" || echo "the bridge cni0 has the address $*, not $wanted"
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
# Lets flannel start again, and waits until it has the expected subnets. Where it cannot run, as on a node with a taint that
# it does not tolerate, the expected subnets are sufficient.
# Arguments: expected addresses.
restart_flannel() {
  old=$(flannels)
  for container in $old; do crictl stop --timeout 10 "$container" >/dev/null || :; done
  left=150
  while :; do
    new=$(flannels)
    differs=$(differs_in_flannel "$@")
    if [ -n "$new" ] && [ "$new" != "$old" ] && [ -z "$differs" ]; then return 0; fi
    [ -n "$old$new$differs" ] || [ "$left" -gt 120 ] || return 0
    left=$((left - 1))
    [ "$left" -gt 0 ] || {
      printf '%s\n' "flannel does not follow: ${differs:-it does not start again}" \
        "hint: see why its pod does not run; run kubexm install, and then this command again" >&2
      exit 1
    }
    sleep 2
  done
}
case $verb in
cleared) [ -e "$folder/cleared" ] || { echo "has pods of the time before the restore"; exit 1; } ;;
clear)
  umask 077
  mkdir -p "$folder"
  remove_pods
  : >"$folder/cleared"
  ;;
follows)
  if [ "$plugin" = flannel ]; then
    [ -e "$folder/flannel" ] || { echo "flannel has not started again"; exit 1; }
    differs=$(differs_in_flannel "$@")
    [ -z "$differs" ] || { echo "$differs"; exit 1; }
  fi
  differs=$(differs_in_bridge "$@")
  [ -z "$differs" ] || { echo "$differs"; exit 1; }
  ;;
follow)
  if [ "$plugin" = flannel ]; then
    restart_flannel "$@"
    umask 077
    mkdir -p "$folder"
    : >"$folder/flannel"
  fi
  [ -z "$(differs_in_bridge "$@")" ] || remove_pods
  ;;
*) echo "usage: pod-bridge.sh cleared|clear|follows|follow" >&2; exit 2 ;;
esac
