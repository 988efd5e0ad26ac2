#!/bin/sh -eu
# Fails unless the bytes of a blob in the storage of a registry have its digest.
# Arguments: the registry's data directory and the digest.
file=$1/docker/registry/v2/blobs/sha256/$(printf %.2s "$2")/$2/data
printf '%s  %s\n' "$2" "$file" | sha256sum -c --status
