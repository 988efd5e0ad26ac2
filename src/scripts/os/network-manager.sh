#!/bin/sh -eu
# Checks whether NetworkManager has a configuration file, or writes it.
# Arguments: `check` or `apply`, path of the file, its text without the last newline.
case $1 in
check) [ "$(cat "$2" 2>/dev/null)" = "$3" ] || { echo "is not configured"; exit 1; } ;;
apply)
  umask 022
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "$3" >"$2.partial"
  replace "$2.partial" "$2"
  systemctl reload NetworkManager
  ;;
*) echo "usage: network-manager.sh check|apply" >&2; exit 2 ;;
esac
