#!/bin/sh -eu
# Prints blobs of the storage of a registry that exist: a line with digest and size, the bytes, and the end of a line.
# Standard input: digests, one in a line.
# Arguments: the registry's data directory.
cd "$1/docker/registry/v2/blobs/sha256" 2>/dev/null || exit 0
while read -r name; do
  file=$(printf %.2s "$name")/$name/data
  [ -f "$file" ] || continue
  echo "$name $(stat -c %s "$file")"
  cat "$file"
  echo
done
