#!/bin/sh -eu
# Calls kubectl for a node whose pods move to others, and keeps in mind that kubexm has cordoned it. A node that an
# administrator has cordoned stays cordoned.
# Verbs:
#   cordon    keeps the scheduler from the node; arguments: the node
#   cordoned  exits with 0 if kubexm has cordoned the node; arguments: the node
#   uncordon  lets the scheduler use the node again if kubexm has cordoned it; arguments: the node
#   evict     moves the pods of the node, and prints what kubectl prints; arguments: those of `kubectl drain`
#   delete    deletes a pod of kube-system, and does not wait for its end; arguments: the pod
verb=$1
shift
# Exists while this node is cordoned by kubexm.
mark=/var/lib/kubexm/cordoned-$1
case $verb in
cordon)
  : >"$mark"
  sync "$mark" /var/lib/kubexm 2>/dev/null || sync
  patiently kubectl cordon "$1" >/dev/null
  ;;
cordoned) [ -e "$mark" ] ;;
uncordon)
  [ -e "$mark" ] || exit 0
  patiently kubectl uncordon "$1" >/dev/null
  rm -f "$mark"
  sync /var/lib/kubexm 2>/dev/null || sync
  ;;
evict) kubectl drain "$@" --ignore-daemonsets --delete-emptydir-data 2>&1 ;;
delete) kubectl -n kube-system delete pod "$1" --wait=false >/dev/null ;;
*) echo "usage: drain.sh cordon|cordoned|uncordon|evict|delete" >&2; exit 2 ;;
esac
