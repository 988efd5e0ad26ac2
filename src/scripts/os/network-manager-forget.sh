#!/bin/sh -eu
# Removes a configuration file of NetworkManager or of systemd-networkd.
# Arguments: path of the file.
rm -f "$1" "$1.partial"
case $1 in
/etc/NetworkManager/*) systemctl reload NetworkManager 2>/dev/null || : ;;
*)
  # Created with the file, if it is empty now.
  rmdir "${1%/*}" 2>/dev/null || :
  networkctl reload 2>/dev/null || :
  ;;
esac
