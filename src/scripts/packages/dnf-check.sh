#!/bin/sh -eu
# Exits with 0 if all packages are installed; prints those that are not. A name may be one that packages
# provide, as `iptables-nft` provides `iptables`.
# Arguments: names of packages.
[ ! -e /var/lib/kubexm/packages ] || { echo "has the packages of an install that was killed"; exit 1; }
missing=
for name in "$@"; do
  rpm -q --quiet --whatprovides "$name" || missing="$missing $name"
done
[ -z "$missing" ] || { echo "does not have$missing"; exit 1; }
