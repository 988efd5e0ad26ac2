#!/bin/sh -eu
# Checks whether a proxy has a CA, or writes it from standard input.
# Arguments: `check` or `put`, path of the CA.
# Gives a complete file its name. The content reaches the disk before the name does, and the name before the
# script goes on.
replace() {
  [ -L "$1" ] || sync "$1" 2>/dev/null || sync
  mv -fT "$1" "$2" || return
  sync "$(dirname "$2")" 2>/dev/null || sync
}
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
