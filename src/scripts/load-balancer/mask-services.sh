#!/bin/sh -eu
# Checks whether a package that kubexm will install could start one of these units, or masks them. Units that
# the host already has do not change. Debian's nginx installs a web page and does not remove it.
# Arguments: `check` or `apply`, units.
verb=$1
shift
is_absent() { [ "$(systemctl show -p LoadState --value "$1")" = not-found ]; }
case $verb in
check)
  for unit in "$@"; do
    ! is_absent "$unit" || { echo "$unit would start with the distribution's settings"; exit 1; }
  done
  ;;
apply)
  umask 077
  mkdir -p /var/lib/kubexm/backup
  [ -e /var/www ] || : >/var/lib/kubexm/backup/no-pages
  for unit in "$@"; do
    is_absent "$unit" || continue
    grep -Fqsx "$unit" /var/lib/kubexm/backup/masked || echo "$unit" >>/var/lib/kubexm/backup/masked
    systemctl mask --quiet "$unit" 2>/dev/null
  done
  ;;
*) echo "usage: mask-services.sh check|apply" >&2; exit 2 ;;
esac
