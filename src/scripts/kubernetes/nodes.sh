#!/bin/sh -eu
# Checks whether nodes are registered or Ready, or prints a diagnosis.
# Arguments: `registered`, `ready` or `diagnose`; names of nodes.
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s "$@"
}
verb=$1
shift
case $verb in
registered)
  nodes=$(kubectl --request-timeout=10s get nodes -o name 2>&1) || { echo "$nodes"; exit 1; }
  for name in "$@"; do
    printf '%s\n' "$nodes" | grep -Fqx "node/$name" || { echo "$name has not registered"; exit 1; }
  done
  ;;
ready)
  nodes=$(kubectl get nodes --no-headers 2>&1) || { echo "$nodes"; exit 1; }
  for name in "$@"; do
    printf '%s\n' "$nodes" |
      awk -v name="$name" '$1 == name && $2 == "Ready" { found = 1 } END { exit !found }' ||
      { echo "$name is not Ready"; exit 1; }
  done
  ;;
diagnose)
  kubectl get nodes,pods -A -o wide || :
  journalctl -u kubelet -n 20 --no-pager -o cat
  ;;
*) echo "usage: nodes.sh registered|ready|diagnose" >&2; exit 2 ;;
esac
