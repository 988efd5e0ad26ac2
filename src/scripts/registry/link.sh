#!/bin/sh -eu
# Writes links into the storage of a registry. Standard input: lines of path and digest, tags last.
# Arguments: the registry's data directory.
umask 022
cd "$1/docker/registry/v2"
rm -f "$1"/.kubexm-links-*
links=$(mktemp "$1/.kubexm-links-XXXXXX")
trap 'rm -f "$links"' EXIT
cat >"$links"
while read -r path digest; do
  mkdir -p "${path%/*}"
  printf %s "$digest" >"$path.partial"
done <"$links"
# The content of all links reaches the disk before their names do. One call for all of them is faster than
# one for each.
sync -f . 2>/dev/null || sync
while read -r path digest; do mv -fT "$path.partial" "$path"; done <"$links"
sync -f . 2>/dev/null || sync
