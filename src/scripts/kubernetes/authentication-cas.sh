#!/bin/sh -eu
# Checks whether the ConfigMap from which kube-scheduler and aggregated API servers take their CAs has exactly these, or lets the API
# servers write it again. An API server adds CAs to it, and removes only expired ones.
# https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
# Verbs: `check`, `apply`. `clients` and `proxies` are the CAs of clients and of front proxies in PEM, each empty to leave it out.
: "${verb=}" "${clients=}" "${proxies=}"
install -d -m 700 /run/kubexm
name=extension-apiserver-authentication
# Reads PEM, and prints a certificate in each line.
certificates() { awk '/-BEGIN/ { text = ""; next } /-END/ { print text; next } { text = text $0 }' | sort; }
# Prints the fields with other CAs.
others() {
  set -- client-ca-file "$clients" requestheader-client-ca-file "$proxies"
  while [ $# -gt 0 ]; do
    if [ -n "$2" ]; then
      found=$(kubectl -n kube-system get configmap "$name" --ignore-not-found -o "jsonpath={.data.$1}") || return
      [ "$(printf '%s\n' "$found" | certificates)" = "$(printf '%s\n' "$2" | certificates)" ] || echo "$1"
    fi
    shift 2
  done
}
case $verb in
check)
  found=$(others) || exit 75
  [ -z "$found" ] || { printf '%s\n' "$found" | sed "s,\$, in the ConfigMap $name has other CAs,"; exit 1; }
  ;;
apply)
  left=90
  until found=$(others) && [ -z "$found" ]; do
    # An API server that has not read its files again yet can add the former one once more.
    [ $((left % 10)) -ne 0 ] || kubectl -n kube-system delete configmap "$name" --ignore-not-found >/dev/null || :
    left=$((left - 1))
    [ "$left" -gt 0 ] || {
      printf '%s\n' "$found" | sed "s,\$, in the ConfigMap $name has other CAs than the API servers," >&2
      echo "hint: read the log of kube-apiserver on the control planes, then run the same command again" >&2
      exit 1
    }
    sleep 2
  done
  ;;
*) echo "usage: authentication-cas.sh check|apply" >&2; exit 2 ;;
esac
