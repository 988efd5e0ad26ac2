#!/bin/sh -eu
# Restores the name that the host had before kubexm set it.
former=/var/lib/kubexm/backup/hostname
rm -f /etc/hostname.kubexm-new
if [ -e "$former/file" ] || [ -L "$former/file" ]; then
  cp -aT "$former/file" /etc/hostname.kubexm-new
  replace /etc/hostname.kubexm-new /etc/hostname
elif [ -e "$former/absent" ]; then
  rm -f /etc/hostname
fi
[ -s "$former/running" ] || exit 0
name=$(cat "$former/running")
if command -v hostname >/dev/null; then hostname "$name"; else echo "$name" >/proc/sys/kernel/hostname; fi
