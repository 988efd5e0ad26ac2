#!/bin/sh -eu
# Compares the time zone of the host with a name, or sets it. Keeps the former files beside the receipt.
# Arguments: `check` or `apply`, the name of the zone, as in Europe/Berlin.
former=/var/lib/kubexm/backup/time-zone
zone=/usr/share/zoneinfo/$2
is_there() { [ -e "$1" ] || [ -L "$1" ]; }
keep() { # FILE NAME: keeps a file as it was before the first change
  if is_there "$former/$2" || is_there "$former/$2.absent"; then return; fi
  if is_there "$1"; then
    cp -aT "$1" "$former/$2.partial"
    replace "$former/$2.partial" "$former/$2"
  else
    : >"$former/$2.absent"
  fi
}
case $1 in
check)
  # systemd writes a relative link (localtime(5)).
  current=$(readlink /etc/localtime 2>/dev/null || :)
  case $current in
  "$zone" | "..$zone") ;;
  *) echo "is ${current#*/zoneinfo/}"; exit 1 ;;
  esac
  # Debian's programs read the name.
  [ ! -e /etc/timezone ] || [ "$(cat /etc/timezone)" = "$2" ] || { echo "is $(cat /etc/timezone)"; exit 1; }
  ;;
apply)
  [ -f "$zone" ] || { echo "$zone does not exist; install the package tzdata, or correct system.timezone" >&2; exit 1; }
  (umask 077; mkdir -p "$former")
  keep /etc/localtime localtime
  keep /etc/timezone timezone
  if [ -e /etc/timezone ]; then
    (umask 022; printf '%s\n' "$2" >/etc/timezone.kubexm-new)
    replace /etc/timezone.kubexm-new /etc/timezone
  fi
  ln -sfn "$zone" /etc/localtime.kubexm-new
  replace /etc/localtime.kubexm-new /etc/localtime
  ;;
*) echo "usage: time-zone.sh check|apply ZONE" >&2; exit 2 ;;
esac
