#!/bin/sh -eu
# Prepares the start of a member of etcd, as root. It is the file /usr/local/lib/kubexm/etcd-prepare, which etcd's unit
# runs before etcd. A member that has lost its data does not start until `kubexm install` replaces it: it could return
# with the id of the old member and without its data. All data becomes the property of the user etcd, because an earlier
# version of kubexm ran etcd as root, and a snapshot that root restored belongs to root.
# Arguments: the data directory, the file that describes a member's first start.
data=$1 initial=$2
if [ ! -e "$initial" ] && [ -z "$(find "$data/member/wal" -name '*.wal' 2>/dev/null | head -n 1)" ]; then
  echo "no data in $data: kubexm install makes a new member in place of this one"
  exit 1
fi
# A link, or a file with a second name, could lead out of the directory.
find "$data" -prune ! -user etcd -exec chown -h etcd:etcd {} +
if [ -d "$data/member" ]; then
  find "$data/member" -xdev \( -type d -o -type f -links 1 \) ! -user etcd -exec chown -h etcd:etcd {} +
fi
