#!/bin/sh -eu
# Compares the role bindings with the cluster, or applies them. The administrator gets its rights from them,
# so another kubeconfig applies them. It is on the host only while the script runs, in memory, and only root
# can read it.
# Arguments: `check` or `apply`, path of the manifest, URL of this host's API server: the endpoint may not answer yet.
# Standard input of `apply`: the kubeconfig.
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s "$@"
}
# Compares objects with the cluster. kubectl diff ends with 1 if they differ, and with more if it fails, as before their kind exists.
# Arguments: those of kubectl diff. `server` is the URL of an API server that does not wait long, or empty for the endpoint.
compare() {
  status=0
  said=$(kubectl ${server:+--server "$server" --request-timeout=10s} diff "$@" 2>&1 >/dev/null) || status=$?
  [ "$status" != 0 ] || exit 0
  [ "$status" != 1 ] || { echo differs; exit 1; }
  kubectl ${server:+--server "$server" --request-timeout=10s} get --raw /readyz >/dev/null 2>&1 ||
    { printf 'the API server does not answer: %s\n' "$said" | tail -n 1 >&2; exit 75; }
  printf 'cannot be compared: %s\n' "$said" | tail -n 1
  exit 1
}
case $1 in
check)
  [ -e /etc/kubernetes/admin.conf ] || { echo "the cluster does not exist yet"; exit 1; }
  server=$3
  compare -f "$2"
  ;;
apply)
  umask 077
  install -d -m 700 /run/kubexm
  # receive-input.sh removes the file of a killed script by its process number.
  config=/run/kubexm/access-$$
  trap 'rm -f "$config"' EXIT
  cat >"$config"
  /usr/local/bin/kubectl --kubeconfig "$config" --server "$3" --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s apply -f "$2" >/dev/null
  ;;
*) echo "usage: access.sh check|apply" >&2; exit 2 ;;
esac
