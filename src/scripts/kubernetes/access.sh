#!/bin/sh -eu
# Compares the role bindings with the cluster, or applies them. The administrator gets its rights from them,
# so another kubeconfig applies them. It is on the host only while the script runs, in memory, and only root
# can read it.
# Arguments: `check` or `apply`, path of the manifest, URL of this host's API server: the endpoint may not answer yet.
# Standard input of `apply`: the kubeconfig.
case $1 in
check)
  [ -e /etc/kubernetes/admin.conf ] || { echo "the cluster does not exist yet"; exit 1; }
  compare "$3" -f "$2"
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
