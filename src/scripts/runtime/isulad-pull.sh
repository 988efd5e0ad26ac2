#!/bin/sh -eu
# Pulls images for iSulad and tags them with their original names. In the local registry the name of each image
# starts with its original registry, with `_` before the port.
# Arguments: address of the local registry, names of images.
export PATH="/usr/local/bin:$PATH"
registry=$1
shift
for image in "$@"; do
  from=$registry/$(printf %s "${image%%/*}" | tr : _)/${image#*/}
  isula pull "$from" >/dev/null
  isula tag "$from" "$image" >/dev/null
done
