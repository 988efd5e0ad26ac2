#!/bin/sh -eu
# Compares the name of the host with a name, or sets it. Keeps the former name and the former /etc/hostname beside the
# receipt.
# Arguments: `check` or `apply`, the name.
former=/var/lib/kubexm/backup/hostname
case $1 in
check)
  now=$(uname -n)
  [ "$now" = "$2" ] || { echo "is $now"; exit 1; }
  [ "$(cat /etc/hostname 2>/dev/null)" = "$2" ] || { echo "/etc/hostname has another name"; exit 1; }
  ;;
apply)
  (umask 077; mkdir -p "$former")
  if [ ! -e "$former/running" ]; then
    uname -n >"$former/running.new"
    replace "$former/running.new" "$former/running"
  fi
  if [ ! -e "$former/file" ] && [ ! -L "$former/file" ] && [ ! -e "$former/absent" ]; then
    if [ -e /etc/hostname ] || [ -L /etc/hostname ]; then
      cp -aT /etc/hostname "$former/file.new"
      replace "$former/file.new" "$former/file"
    else
      : >"$former/absent"
    fi
  fi
  (umask 022; printf '%s\n' "$2" >/etc/hostname.kubexm-new)
  replace /etc/hostname.kubexm-new /etc/hostname
  if command -v restorecon >/dev/null; then restorecon /etc/hostname || :; fi
  # Some minimal systems do not have the program.
  if command -v hostname >/dev/null; then hostname "$2"; else echo "$2" >/proc/sys/kernel/hostname; fi
  ;;
*) echo "usage: hostname.sh check|apply NAME" >&2; exit 2 ;;
esac
