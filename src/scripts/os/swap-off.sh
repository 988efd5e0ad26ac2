#!/bin/sh -eu
# Checks whether swap is off, now and after a restart, or turns it off. Keeps the names of swap devices and of their units
# beside the receipt, comments out their lines in /etc/fstab, and disables or masks the units.
# Arguments: `check` or `apply`.
# Units that the next boot starts. A generator writes those of /etc/fstab, of zram and of partitions.
units() { systemctl list-unit-files --type=swap --no-legend --plain | awk '$2 ~ /^(enabled|generated)/ { print $1 }'; }
case $1 in
check)
  [ "$(wc -l </proc/swaps)" -le 1 ] || { echo "swap is on"; exit 1; }
  ! grep -Eqs '^[^#]\S*\s+\S+\s+swap\s' /etc/fstab || { echo "/etc/fstab turns swap on"; exit 1; }
  for unit in $(units); do echo "$unit turns swap on at the next boot"; exit 1; done
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
  # Without this, systemd has units of lines that are gone.
  systemctl daemon-reload
  for unit in $(units); do
    # A unit in this directory cannot be masked.
    if [ -e "/etc/systemd/system/$unit" ]; then verb=disable; else verb=mask; fi
    grep -Fqsx -e "$verb $unit" /var/lib/kubexm/backup/swap-units || printf '%s %s\n' "$verb" "$unit" >>/var/lib/kubexm/backup/swap-units
    systemctl "$verb" --quiet -- "$unit"
  done
  ;;
*) echo "usage: swap-off.sh check|apply" >&2; exit 2 ;;
esac
