#!/bin/sh -eu
# Writes links into the storage of a registry. Standard input: lines of path and digest, tags last.
# Arguments: the registry's data directory.
umask 022
cd "$1/docker/registry/v2"
while read -r path digest; do
  mkdir -p "${path%/*}"
  printf %s "$digest" >"$path.partial"
  mv -f "$path.partial" "$path"
done
