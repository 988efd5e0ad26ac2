#!/bin/sh -eu
# Checks whether join secrets exist, or removes them. They are the tokens of all runs of kubexm, the uploaded
# certificates, and the token whose expiry limits their lifetime.
# Arguments: `check` or `remove`.
# Prints the names of secrets.
names() {
  tokens=$(kubectl -n kube-system get secrets --field-selector type=bootstrap.kubernetes.io/token \
    -o jsonpath='{range .items[*]}{.metadata.name} {.data.description}{"\n"}{end}') || return
  printf '%s\n' "$tokens" |
    awk -v ours="$(printf 'kubexm install' | base64 -w0)" \
      -v proxy="$(printf 'Proxy for managing TTL for the kubeadm-certs secret' | base64 -w0)" \
      '$2 == ours || $2 == proxy { print $1 }'
  kubectl -n kube-system get secret kubeadm-certs --ignore-not-found -o jsonpath='{.metadata.name}'
}
names=$(names)
case $1 in
check) [ -z "$names" ] ;;
remove)
  # They may have expired in the meantime.
  for name in $names; do
    kubectl -n kube-system delete secret --ignore-not-found "$name" >/dev/null
  done
  ;;
*) echo "usage: join-secrets.sh check|remove" >&2; exit 2 ;;
esac
