#!/bin/sh -eu
# Removes packages with their settings, and what a killed apt.sh left.
# Arguments: names of packages.
install -d -m 700 /run/kubexm
# A killed install leaves its apt running on the host. This waits for it.
exec 9>/run/kubexm/packages.lock
flock -w 600 9
# The policy of a killed apt.sh, which would prevent services of all packages from starting.
policy=/usr/sbin/policy-rc.d
if [ -e /var/lib/kubexm/policy-rc.d ]; then
  case $(cat "$policy" 2>/dev/null) in *'# kubexm installs packages.'* | '') rm -f "$policy" ;; esac
  rm -f /var/lib/kubexm/policy-rc.d
fi
rm -f /var/lib/kubexm/apt-begun
for name in "$@"; do
  shift
  # shellcheck disable=SC2016 # dpkg-query expands it
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || :)
  case $status in '' | not-installed) ;; *) set -- "$@" "$name" ;; esac
done
[ $# -eq 0 ] || DEBIAN_FRONTEND=noninteractive dpkg --purge "$@" >/dev/null
