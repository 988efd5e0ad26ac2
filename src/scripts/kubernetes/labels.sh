#!/bin/sh -eu
# Checks whether nodes have labels, or sets them.
# Arguments: `check` or `apply`; then repeatedly labels with commas between them and the names of the nodes
# that must have them, with blanks between them.
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s "$@"
}
check() {
  labels=$1
  have=$(kubectl get nodes -l "$labels" -o name)
  for name in $2; do
    printf '%s\n' "$have" | grep -Fqx "node/$name" || { echo "$name does not have all of $labels"; exit 1; }
  done
}
apply() {
  labels=$1 names=$2
  set --
  for name in $names; do set -- "$@" "$name"; done
  for label in $(printf %s "$labels" | tr , ' '); do set -- "$@" "$label"; done
  kubectl label --overwrite node "$@" >/dev/null
}
verb=$1
shift
while [ $# -gt 0 ]; do
  case $verb in
  check) check "$1" "$2" ;;
  apply) apply "$1" "$2" ;;
  *) echo "usage: labels.sh check|apply" >&2; exit 2 ;;
  esac
  shift 2
done
