#!/bin/sh -eu
# Compares the cluster's CA on the host with that of the state directory, or explains the difference. With
# another CA an install would replace every certificate of a running cluster.
# Arguments: `check` or `refuse`, path of the CA, its SHA-256.
case $1 in
check)
  [ ! -e "$2" ] || [ "$(sha256sum <"$2" | cut -d' ' -f1)" = "$3" ] ||
    { echo "belongs to another state directory"; exit 1; }
  ;;
refuse)
  echo "$2 is not the CA of this state directory" >&2
  echo "hint: pass the state directory of this cluster with --state, or reset its hosts" >&2
  exit 1
  ;;
*) echo "usage: same-ca.sh check|refuse" >&2; exit 2 ;;
esac
