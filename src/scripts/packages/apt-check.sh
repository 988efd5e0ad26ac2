#!/bin/sh -eu
# Exits with 0 if all packages are installed and services of packages start; prints those that are not, or the reason.
# Arguments: names of packages.
[ ! -e /var/lib/kubexm/policy-rc.d ] ||
  { echo "has the /usr/sbin/policy-rc.d of an install that was killed"; exit 1; }
[ ! -e /var/lib/kubexm/packages ] || { echo "has the packages of an install that was killed"; exit 1; }
[ ! -e /var/lib/kubexm/apt-begun ] || { echo "has packages that a killed apt did not configure"; exit 1; }
missing=
for name in "$@"; do
  # shellcheck disable=SC2016 # dpkg-query expands it
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing="$missing $name"
done
[ -z "$missing" ] || { echo "does not have$missing"; exit 1; }
