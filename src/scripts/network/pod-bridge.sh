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
# Prints the containers of flannel that run.
flannels() {
  crictl ps -q --state running --name '^kube-flannel$' || { echo "the container runtime does not answer" >&2; exit 1; }
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
  [ "$(echo "$found" | grep -c .)" = "$#" ] || { echo "flannel has the subnet ${found:-of no node}"; return; }
  for subnet in $found; do
    is_one_of "$subnet" "$@" || echo "flannel has the subnet $subnet, not $*"
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
# Removes the pods on the bridge, and the bridge. The next pod creates it.
remove_pods() {
  systemctl stop kubelet.service
  for pod in $(crictl pods -q); do
    # Static pods use the network of the host.
    if crictl inspectp "$pod" 2>/dev/null | grep -q '"network": *"POD"'; then crictl rmp -f "$pod" >/dev/null 2>&1 || :; fi
  done
  ip link delete cni0 2>/dev/null || :
  systemctl start kubelet.service
}
# Lets flannel start again, and waits until it has the expected subnets.
# Arguments: expected addresses.
restart_flannel() {
  old=$(flannels)
  for container in $old; do crictl stop --timeout 10 "$container" >/dev/null || :; done
  left=150
  while :; do
    new=$(flannels)
    differs=$(differs_in_flannel "$@")
    [ -z "$new" ] || [ "$new" = "$old" ] || [ -n "$differs" ] || return 0
    left=$((left - 1))
    [ "$left" -gt 0 ] || { echo "flannel does not follow: ${differs:-it does not start again}" >&2; exit 1; }
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
