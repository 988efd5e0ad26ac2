#!/bin/sh -eu
# Checks whether only root, or only the user etcd, can read etcd's data directory, or sets this mode. Keeps the former
# mode and owner beside the receipt. It does not take the directory from the user etcd, which may be using it.
# Arguments: `check` or `apply`, the directory.
folder=$2
etcd=$(id -u etcd 2>/dev/null || echo 0)
case $1 in
check)
  case $(stat -c '%F %a %u' "$folder" 2>/dev/null) in
  "directory 700 0" | "directory 700 $etcd") ;;
  *) echo "$folder is not readable by root or etcd only"; exit 1 ;;
  esac
  ;;
apply)
  others=$(find "$folder" -mindepth 1 -maxdepth 1 ! -name member ! -name 'member.before-*' ! -name lost+found ! -name .kubexm-owner 2>/dev/null | head -n 3)
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
  [ "$(stat -c %u "$folder")" = "$etcd" ] || chown 0:0 "$folder"
  chmod 700 "$folder"
  ;;
*) echo "usage: folder.sh check|apply" >&2; exit 2 ;;
esac
