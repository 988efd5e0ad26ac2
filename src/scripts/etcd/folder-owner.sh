#!/bin/sh -eu
# Checks whether etcd's data directory belongs to the user and the group etcd, or gives it to them. The content keeps its
# owner: kubeadm's etcd runs as root. Keeps the former owner beside the receipt. Skips a directory that does not exist.
# Arguments: `check` or `apply`, the directory.
folder=$2
[ -d "$folder" ] || exit 0
case $1 in
check)
  [ "$(stat -c %U:%G "$folder")" = etcd:etcd ] || { echo "$folder does not belong to etcd"; exit 1; }
  ;;
apply)
  umask 077
  mkdir -p /var/lib/kubexm/backup
  former=/var/lib/kubexm/backup/etcd-folder
  # A run that was killed before the change may have left an empty file.
  [ -s "$former" ] || stat -c '%a %u:%g' "$folder" >"$former"
  chown etcd:etcd "$folder"
  ;;
*) echo "usage: folder-owner.sh check|apply" >&2; exit 2 ;;
esac
