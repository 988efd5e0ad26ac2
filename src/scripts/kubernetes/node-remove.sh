#!/bin/sh -eu
# Removes a node from the cluster, with what the cluster has because of it. A node that a killed run has removed is not there.
#   check, delete  checks whether there is no such node, or deletes it; `delete` also ends the pods of a node that is lost,
#                  which no kubelet can end
#   swept, sweep   checks whether nothing is left of the node, or removes what is: its lease, its CSINode, its certificate
#                  signing requests, and with Cilium its CiliumNode
# Arguments: verb, name of the node; for `check` and `delete` also `lost` or `left`.
verb=$1 node=$2
# Prints `KIND NAME` of the objects that belong to the node. Fails if the API server does not answer.
leftovers() {
  name='jsonpath={.metadata.name}'
  lease=$(patiently kubectl -n kube-node-lease get lease "$node" --ignore-not-found -o "$name") || return
  csinode=$(patiently kubectl get csinode "$node" --ignore-not-found -o "$name") || return
  requests=$(patiently kubectl get certificatesigningrequests \
    -o 'jsonpath={range .items[*]}{.spec.username}{" "}{.metadata.name}{"\n"}{end}') || return
  cilium=$(patiently kubectl get crd ciliumnodes.cilium.io --ignore-not-found -o name) || return
  [ -z "$cilium" ] || cilium=$(patiently kubectl get ciliumnode "$node" --ignore-not-found -o "$name") || return
  [ -z "$lease" ] || echo "-n kube-node-lease lease $lease"
  [ -z "$csinode" ] || echo "csinode $csinode"
  printf '%s\n' "$requests" | awk -v user="system:node:$node" '$1 == user { print "csr", $2 }'
  [ -z "$cilium" ] || echo "ciliumnode $cilium"
}
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
swept)
  found=$(leftovers) || exit 75
  [ -z "$found" ] || { echo "the cluster has $(printf '%s\n' "$found" | awk '{ print $(NF - 1), $NF }' | tr '\n' ' ')"; exit 1; }
  ;;
sweep)
  found=$(leftovers)
  printf '%s\n' "$found" | while read -r object; do
    # shellcheck disable=SC2086 # namespace, kind and name are words
    [ -z "$object" ] || patiently kubectl delete --ignore-not-found --wait=false $object >/dev/null
  done
  ;;
*) echo "usage: node-remove.sh check|delete|swept|sweep" >&2; exit 2 ;;
esac
