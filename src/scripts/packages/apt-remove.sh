#!/bin/sh -eu
# Removes packages with their settings.
# Arguments: names of packages.
mkdir -p /run/kubexm
# A killed install leaves its apt running on the host. This waits for it.
exec 9>/run/kubexm/packages.lock
flock -w 600 9
for name in "$@"; do
  shift
  # shellcheck disable=SC2016 # dpkg-query expands it
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || :)
  case $status in '' | not-installed) ;; *) set -- "$@" "$name" ;; esac
done
[ $# -eq 0 ] || DEBIAN_FRONTEND=noninteractive dpkg --purge "$@" >/dev/null
