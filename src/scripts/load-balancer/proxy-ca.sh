#!/bin/sh -eu
# Checks whether a proxy has a CA, or writes it from standard input.
# Arguments: `check` or `put`, path of the CA.
case $1 in
check) [ -s "$2" ] || { echo "is missing"; exit 1; } ;;
put)
  umask 022
  # A reset finds this name (steps/file-remove.sh).
  new=$(dirname "$2")/.$(basename "$2").kubexm-new
  cat >"$new"
  replace "$new" "$2"
  ;;
*) echo "usage: proxy-ca.sh check|put" >&2; exit 2 ;;
esac
