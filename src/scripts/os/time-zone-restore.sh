#!/bin/sh -eu
# Restores the time zone that the host had before kubexm set it.
former=/var/lib/kubexm/backup/time-zone
rm -f /etc/localtime.kubexm-new /etc/timezone.kubexm-new
for name in localtime timezone; do
  if [ -e "$former/$name" ] || [ -L "$former/$name" ]; then
    cp -aT "$former/$name" "/etc/$name.kubexm-new"
    replace "/etc/$name.kubexm-new" "/etc/$name"
  elif [ -e "$former/$name.absent" ]; then
    rm -f "/etc/$name"
  fi
done
