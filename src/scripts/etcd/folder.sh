#!/bin/sh -eu
# Checks whether only root can read etcd's data directory, or sets this mode. Keeps the former mode and owner
# beside the receipt.
# Arguments: `check` or `apply`, the directory.
folder=$2
case $1 in
check)
  [ "$(stat -c '%F %a %u' "$folder" 2>/dev/null)" = "directory 700 0" ] ||
    { echo "$folder is not readable by root only"; exit 1; }
  ;;
apply)
  others=$(find "$folder" -mindepth 1 -maxdepth 1 ! -name member ! -name lost+found ! -name .kubexm-owner 2>/dev/null | head -n 3)
  [ -z "$others" ] || {
    printf '%s contains files that do not belong to etcd:\n%s\nhint: set etcd.dataDir to another directory\n' \
      "$folder" "$others" >&2
    exit 1
  }
  umask 077
  mkdir -p /var/lib/kubexm/backup
  former=/var/lib/kubexm/backup/etcd-folder
  [ ! -d "$folder" ] || [ -e "$former" ] || stat -c '%a %u:%g' "$folder" >"$former"
  (umask 022; mkdir -p "$(dirname "$folder")")
  mkdir -p "$folder"
  chown 0:0 "$folder"
  chmod 700 "$folder"
  ;;
*) echo "usage: folder.sh check|apply" >&2; exit 2 ;;
esac
