#!/bin/sh -eu
# Checks whether a proxy has a CA, or writes it from standard input.
# Arguments: `check` or `put`, path of the CA.
case $1 in
check) [ -s "$2" ] || { echo "is missing"; exit 1; } ;;
put)
  umask 022
  cat >"$2.kubexm-new"
  mv -f "$2.kubexm-new" "$2"
  ;;
*) echo "usage: proxy-ca.sh check|put" >&2; exit 2 ;;
esac
