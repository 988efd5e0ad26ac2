#!/bin/sh -eu
# Compares the bindings of roles with the cluster, or applies them. The administrator gets its rights from
# them and so cannot apply them. The kubeconfig that can is on the host only while this runs, in memory and
# readable by root only.
# Arguments: `check` or `apply`, path of the manifest. Standard input of `apply`: that kubeconfig.
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl "$@"
}
case $1 in
check) kubectl --request-timeout=10s diff -f "$2" >/dev/null 2>&1 || { echo differs; exit 1; } ;;
apply)
  umask 077
  mkdir -p /run/kubexm
  config=$(mktemp /run/kubexm/access-XXXXXX)
  trap 'rm -f "$config"' EXIT
  cat >"$config"
  /usr/local/bin/kubectl --kubeconfig "$config" --cache-dir /run/kubexm/kubectl apply -f "$2" >/dev/null
  ;;
*) echo "usage: access.sh check|apply" >&2; exit 2 ;;
esac
