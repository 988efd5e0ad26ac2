#!/bin/sh -eu
# Prints how much data etcd has on this host, and how much room there is for kubeadm's copy of it, both in KiB:
# `DATA FREE`. kubeadm copies the data to /etc/kubernetes/tmp. The copies of interrupted upgrades are removed before.
# Arguments: the data directory of etcd.
data=$(du -skx "$1" | cut -f1)
free=$(df -Pk /etc/kubernetes | awk 'NR == 2 { print $4 }')
for copy in /etc/kubernetes/tmp/kubeadm-backup-etcd-*; do
  [ ! -d "$copy" ] || free=$((free + $(du -skx "$copy" | cut -f1)))
done
echo "$data $free"
