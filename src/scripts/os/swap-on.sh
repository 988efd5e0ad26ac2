#!/bin/sh -eu
# Turns swap on again and restores its lines in /etc/fstab and its units.
if [ -e /etc/fstab ]; then
  table=$(readlink -f /etc/fstab)
  cp -a "$table" "$table.kubexm-new"
  sed 's,^#kubexm ,,' "$table" >"$table.kubexm-new"
  replace "$table.kubexm-new" "$table"
fi
if [ -e /var/lib/kubexm/backup/swap-units ]; then
  while read -r verb unit state; do
    case $verb in
    mask) verb=unmask ;;
    disable) verb=enable ;;
    link)
      mkdir -p "${unit%/*}"
      [ -L "$unit" ] || ln -s "$state" "$unit"
      continue
      ;;
    *) continue ;;
    esac
    # The device of a unit can be gone: systemd waits 90 s for it.
    if systemctl "$verb" --quiet -- "$unit" && [ "$state" = active ]; then systemctl start --no-block -- "$unit" || :; fi
  done </var/lib/kubexm/backup/swap-units
fi
[ -e /var/lib/kubexm/backup/swaps ] || exit 0
while read -r name; do swapon "$name" || :; done </var/lib/kubexm/backup/swaps
