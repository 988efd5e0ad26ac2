#!/bin/sh -eu
# Asks registries as the container runtime of this node does: over HTTPS, with CA and login. Prints a line with address and
# reason for each that does not answer. Changes nothing.
# Standard input: a kubeconfig with a context for each registry: its address, CA and login. Secret.
# Arguments: the contexts, which have the names HOST:PORT.
export PATH="/usr/local/bin:$PATH"
# Container runtimes connect to the registries of the cluster without a proxy.
export NO_PROXY='*' no_proxy='*'
umask 077
install -d -m 700 /run/kubexm
# receive-input.sh removes the file of a killed run.
file=/run/kubexm/access-$$
trap 'rm -f "$file"' EXIT
cat >"$file"
# kubectl is the only HTTP client that every node has. A registry that was restarted answers after some seconds.
ask() { # CONTEXT
  left=4
  until said=$(kubectl --kubeconfig "$file" --context "$1" --cache-dir /run/kubexm/kubectl --request-timeout=5s \
    get --raw /v2/ 2>&1 </dev/null); do
    left=$((left - 1))
    [ "$left" != 0 ] || return 1
    sleep 2
  done
}
for registry in "$@"; do
  if ask "$registry"; then continue; fi
  case $said in
  *"You must be logged in to the server"*) said="it refuses the login of the nodes" ;;
  *) said=$(printf '%s\n' "$said" | grep . | tail -n 1 | cut -c1-1000) ;;
  esac
  echo "$registry: ${said:-kubectl gave no reason}"
done
