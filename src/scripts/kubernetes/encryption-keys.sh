#!/bin/sh -eu
# Checks whether the API server's keys on the host are keys of the state directory, or explains the difference.
# Without its keys the API server could not read the Secrets in etcd.
# Arguments: `check` or `refuse`, path of the configuration, names of the keys of the state directory.
verb=$1 file=$2
shift 2
case $verb in
check)
  [ -e "$file" ] || exit 0
  names=$(sed -n 's/^ *- name: "\(.*\)"$/\1/p' "$file")
  for name in $names; do
    known=
    for own in "$@"; do [ "$own" != "$name" ] || known=yes; done
    [ -n "$known" ] || { echo "has a key of another state directory"; exit 1; }
  done
  ;;
refuse)
  echo "$file has an encryption key that this state directory does not have" >&2
  echo "hint: pass the state directory of this cluster with --state, or restore its pki/encryption-*.key" >&2
  exit 1
  ;;
*) echo "usage: encryption-keys.sh check|refuse" >&2; exit 2 ;;
esac
