#!/bin/sh -eu
# Checks whether tags and manifests are gone from the storage of a registry, or removes them. The blobs stay. Standard
# input: their directories below the registry's root, manifests first, so that a run that was killed still finds the tags.
# Arguments: `check` or `apply`, the registry's data directory.
verb=$1
cd "$2/docker/registry/v2"
while read -r path; do
  case $path in
  */../* | */./* | *//*) echo "'$path' is not a path in a registry" >&2; exit 2 ;;
  repositories/*/_manifests/tags/* | repositories/*/_manifests/revisions/sha256/*) ;;
  *) echo "'$path' is neither a tag nor a manifest" >&2; exit 2 ;;
  esac
  case $verb in
  check) [ ! -e "$path" ] || { echo "$path exists"; exit 1; } ;;
  apply)
    # Without `current`, a tag does not exist: it goes last.
    rm -rf "$path/index"
    rm -rf "$path"
    ;;
  *) echo "usage: remove.sh check|apply" >&2; exit 2 ;;
  esac
done
# The blobs of a manifest must not be lost before the manifest is, also after a power failure.
[ "$verb" = check ] || sync -f . 2>/dev/null || sync
