#!/bin/sh -eu
# Checks whether the kubelet's directory of static pods and its resolv.conf exist, or creates them. With
# systemd-resolved, /etc/resolv.conf names a loopback address, and CoreDNS would send queries to itself
# (https://coredns.io/plugins/loop/#troubleshooting). An update of the host may change the target of the
# link, so every install compares it.
# Arguments: `check` or `apply`, the directory, the link.
folder=$2 link=$3
wanted=/etc/resolv.conf
! systemctl is-active --quiet systemd-resolved || wanted=/run/systemd/resolve/resolv.conf
case $1 in
check)
  [ -d "$folder" ] || { echo "$folder is missing"; exit 1; }
  [ "$(readlink "$link")" = "$wanted" ] || { echo "$link is not a link to $wanted"; exit 1; }
  ;;
apply)
  (umask 077; mkdir -p "$folder")
  ln -sfn "$wanted" "$link.new"
  replace "$link.new" "$link"
  ;;
*) echo "usage: kubelet-surroundings.sh check|apply" >&2; exit 2 ;;
esac
