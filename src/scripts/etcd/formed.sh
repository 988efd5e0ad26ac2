#!/bin/sh -eu
# Checks whether the member is marked as one of a complete cluster, or marks it. A later install then
# does not create a new cluster.
# Arguments: `check` or `mark`, the file that describes a member's first start.
mark=/var/lib/kubexm/done/etcd-formed
case $1 in
check)
  [ -e "$mark" ] || { echo "not all members were healthy yet"; exit 1; }
  [ ! -e "$2" ] || { echo "still has the settings of its first start"; exit 1; }
  ;;
mark)
  umask 077
  mkdir -p /var/lib/kubexm/done
  : >"$mark"
  sync "$mark" 2>/dev/null || sync
  rm -f "$2"
  ;;
*) echo "usage: formed.sh check|mark" >&2; exit 2 ;;
esac
