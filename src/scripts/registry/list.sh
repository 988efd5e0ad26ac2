#!/bin/sh -eu
# Prints what is in the storage of a registry: `blob`, digest and size; `link`, path and digest.
# Arguments: the registry's data directory.
cd "$1/docker/registry/v2" 2>/dev/null || exit 0
find blobs -type f -name data -printf 'blob %h %s\n' 2>/dev/null | sed 's,blobs/sha256/../,,'
find repositories -type f -name link 2>/dev/null | while read -r path; do
  read -r digest <"$path" || :
  echo "link $path $digest"
done
