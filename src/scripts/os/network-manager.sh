#!/bin/sh -eu
# Checks whether NetworkManager or systemd-networkd has a configuration file, or writes it.
# Arguments: `check` or `apply`, path of the file, its text without the last newline.
case $1 in
check) [ "$(cat "$2" 2>/dev/null)" = "$3" ] || { echo "is not configured"; exit 1; } ;;
apply)
  umask 022
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "$3" >"$2.partial"
  replace "$2.partial" "$2"
  case $2 in
  /etc/NetworkManager/*) systemctl reload NetworkManager ;;
  *) networkctl reload ;;
  esac
  ;;
*) echo "usage: network-manager.sh check|apply" >&2; exit 2 ;;
esac
