#!/bin/sh -eu
# Exits with 0 if all packages are installed; prints those that are not.
# Arguments: names of packages.
missing=
for name in "$@"; do
  # shellcheck disable=SC2016 # dpkg-query expands it
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing="$missing $name"
done
[ -z "$missing" ] || { echo "does not have$missing"; exit 1; }
