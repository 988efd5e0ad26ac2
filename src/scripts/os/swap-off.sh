#!/bin/sh -eu
# Checks whether swap is off, now and after a restart, or turns it off. Keeps the names of swap devices
# beside the receipt and comments out their lines in /etc/fstab.
# Arguments: `check` or `apply`.
case $1 in
check)
  [ "$(wc -l </proc/swaps)" -le 1 ] || { echo "swap is on"; exit 1; }
  ! grep -Eqs '^[^#]\S*\s+\S+\s+swap\s' /etc/fstab || { echo "/etc/fstab turns swap on"; exit 1; }
  ;;
apply)
  umask 077
  mkdir -p /var/lib/kubexm/backup
  sed 1d /proc/swaps | awk '{ print $1 }' >>/var/lib/kubexm/backup/swaps
  swapoff -a
  sync /var/lib/kubexm/backup/swaps /var/lib/kubexm/backup 2>/dev/null || sync
  if [ -e /etc/fstab ]; then
    table=$(readlink -f /etc/fstab)
    cp -a "$table" "$table.kubexm-new"
    sed -E 's,^([^#]\S*\s+\S+\s+swap\s.*),#kubexm \1,' "$table" >"$table.kubexm-new"
    replace "$table.kubexm-new" "$table"
  fi
  ;;
*) echo "usage: swap-off.sh check|apply" >&2; exit 2 ;;
esac
