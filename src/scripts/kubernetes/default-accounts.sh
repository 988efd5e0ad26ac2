#!/bin/sh -eu
# Checks whether the service accounts `default` of namespaces state whether pods get their tokens, or sets this to false.
# Keeps a value that is there. Skips namespaces that do not exist.
# Arguments: `check` or `apply`, namespaces.
verb=$1
shift
# Prints `default` and the value. The controller manager creates the account some time after the namespace.
account() {
  kubectl -n "$1" get serviceaccount default --ignore-not-found \
    -o 'jsonpath={.metadata.name} {.automountServiceAccountToken}'
}
for namespace in "$@"; do
  exists=$(kubectl get namespace "$namespace" --ignore-not-found -o name)
  [ -n "$exists" ] || continue
  found=$(account "$namespace")
  case "$verb $found" in
  *" default true" | *" default false") ;;
  "check "*) echo "the default service account of $namespace gives its token to pods"; exit 1 ;;
  "apply "*)
    left=60
    until [ -n "$found" ]; do
      left=$((left - 1))
      [ "$left" -gt 0 ] || { echo "the namespace $namespace has no service account default" >&2; exit 1; }
      sleep 1
      found=$(account "$namespace")
    done
    kubectl -n "$namespace" patch serviceaccount default -p '{"automountServiceAccountToken": false}' >/dev/null
    ;;
  *) echo "usage: default-accounts.sh check|apply" >&2; exit 2 ;;
  esac
done
