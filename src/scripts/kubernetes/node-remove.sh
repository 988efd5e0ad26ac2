#!/bin/sh -eu
# Removes a node from the cluster. A node that a killed run has removed is not there.
#   check, delete  checks whether there is no such node, or deletes it; `delete` also ends the pods of a node that is lost,
#                  which no kubelet can end
# Arguments: verb, name of the node; `lost` or `left`.
verb=$1 node=$2
case $verb in
check)
  found=$(patiently kubectl get node "$node" --ignore-not-found -o name) || exit 75
  [ -z "$found" ] || { echo "the cluster has the node"; exit 1; }
  ;;
delete)
  if [ "$3" = lost ]; then
    patiently kubectl delete pods -A --field-selector "spec.nodeName=$node" --force --grace-period=0 --wait=false >/dev/null
  fi
  # drain.sh marks nodes that kubexm has cordoned.
  rm -f "/var/lib/kubexm/cordoned-$node"
  # The last change: without the node, `check` finds nothing to do.
  patiently kubectl delete node "$node" --ignore-not-found --wait=true --timeout=60s >/dev/null
  ;;
*) echo "usage: node-remove.sh check|delete" >&2; exit 2 ;;
esac
