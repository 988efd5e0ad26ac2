#!/bin/sh -eu
# Pulls images for iSulad and tags them with their original names. In the local registry the name of each image
# starts with its original registry, with `_` before the port. Standard input: a line `user:password` if the registry
# requires a login. iSulad keeps the login only while the script runs.
# Arguments: address of the local registry, names of images.
export PATH="/usr/local/bin:$PATH"
registry=$1
shift
login=
IFS= read -r login || :
if [ -n "$login" ]; then
  trap 'isula logout "$registry" >/dev/null 2>&1 || :' EXIT
  printf %s "${login#*:}" | isula login --username "${login%%:*}" --password-stdin "$registry" >/dev/null
fi
for image in "$@"; do
  from=$registry/$(printf %s "${image%%/*}" | tr : _)/${image#*/}
  isula pull "$from" >/dev/null
  isula tag "$from" "$image" >/dev/null
done
