#!/bin/sh -eu
# Checks whether swap is off, now and after a restart, or turns it off. Keeps the names of swap devices, and of their units with
# their state, beside the receipt, comments out their lines in /etc/fstab, and disables or masks the units.
# Arguments: `check` or `apply`.
kept=/var/lib/kubexm/backup
# Units that the next boot starts. A generator writes those of zram and of partitions. The units of lines in /etc/fstab end with
# the lines, after a `daemon-reload`. A package can have a unit of swap that its own link starts, and so can an administrator.
units() {
  systemctl list-unit-files --no-legend --plain '*.swap' zramswap.service zram-config.service dphys-swapfile.service swapspace.service systemd-swap.service |
    awk '$2 ~ /^(enabled|generated)/ || ($1 ~ /\.swap$/ && $2 == "static") { print $2, $1 }' | while read -r state unit; do
    shown=$(wanting "$unit" -p SourcePath)
    case $state:$shown in
    *SourcePath=/etc/fstab*) ;;
    static:*dBy=[a-z0-9-]* | enabled* | generated*) echo "$unit" ;;
    esac
  done
}
# Prints the units that start one, as properties of it, and its other properties that options name.
wanting() {
  unit=$1
  shift
  systemctl show -p WantedBy -p RequiredBy -p UpheldBy "$@" -- "$unit" </dev/null
}
# Links of an administrator that start a unit. Without a section [Install], nothing makes them again.
links_to() {
  find /etc/systemd/system -mindepth 2 -maxdepth 2 -type l 2>/dev/null | while read -r link; do
    case $link in *.wants/"$1" | *.requires/"$1" | *.upholds/"$1") echo "$link" ;; esac
  done
}
# Records how a unit ends, its links, and whether it is active. The first record counts: a killed run has turned swap off.
record() {
  # A unit in this directory cannot be masked. One without a section [Install] cannot be enabled again.
  if [ -e "/etc/systemd/system/$1" ]; then verb=disable; else verb=mask; fi
  [ "$verb" = mask ] || links_to "$1" | while read -r link; do
    grep -Fqs -e "link $link " "$kept/swap-units" || printf 'link %s %s\n' "$link" "$(readlink "$link")" >>"$kept/swap-units"
  done
  grep -Fqs -e "$verb $1 " "$kept/swap-units" ||
    printf '%s %s %s\n' "$verb" "$1" "$(systemctl is-active -- "$1" || :)" >>"$kept/swap-units"
}
case $1 in
check)
  [ "$(wc -l </proc/swaps)" -le 1 ] || { echo "swap is on"; exit 1; }
  ! grep -Eqs '^[^#]\S*\s+\S+\s+swap(\s|$)' /etc/fstab || { echo "/etc/fstab turns swap on"; exit 1; }
  for unit in $(units); do echo "$unit turns swap on at the next boot"; exit 1; done
  ;;
apply)
  umask 077
  mkdir -p "$kept"
  for unit in $(units); do record "$unit"; done
  sed 1d /proc/swaps | awk '{ print $1 }' >>"$kept/swaps"
  swapoff -a
  sync "$kept/swaps" "$kept" 2>/dev/null || sync
  if [ -e /etc/fstab ]; then
    table=$(readlink -f /etc/fstab)
    cp -a "$table" "$table.kubexm-new"
    sed -E 's,^([^#]\S*\s+\S+\s+swap(\s.*)?)$,#kubexm \1,' "$table" >"$table.kubexm-new"
    replace "$table.kubexm-new" "$table"
  fi
  # Without this, systemd has units of lines that are gone.
  systemctl daemon-reload
  for unit in $(units); do
    record "$unit"
    systemctl "$verb" --quiet -- "$unit"
    [ "$verb" = disable ] || continue
    links_to "$unit" | while read -r link; do rm -f "$link" && systemctl daemon-reload; done
    # A program or a generator made such a link, or another unit names this one.
    by=$(wanting "$unit" | sed -n 's/^[A-Za-z]*dBy=\(.\)/\1/p' | tr '\n' ' ')
    [ -z "$by" ] || {
      echo "$unit turns swap on at the next boot, because other units start it: ${by% }" >&2
      echo "hint: move /etc/systemd/system/$unit out of this directory, run systemctl mask $unit on this host, then the same command again" >&2
      exit 1
    }
  done
  ;;
*) echo "usage: swap-off.sh check|apply" >&2; exit 2 ;;
esac
