#!/bin/sh -eu
# Restores the former mode and owner of etcd's data directory.
# Arguments: the directory.
former=/var/lib/kubexm/backup/etcd-folder
[ -d "$1" ] && [ -e "$former" ] || exit 0
read -r mode owner <"$former" || exit 0
chmod "$mode" "$1"
chown "$owner" "$1"
