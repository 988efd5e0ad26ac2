#!/bin/sh -eu
# Prints a part of a blob in the storage of a registry; nothing after its end.
# Arguments: the registry's data directory, the digest, and the first MiB and the number of MiB.
dd if="$1/docker/registry/v2/blobs/sha256/$(printf %.2s "$2")/$2/data" \
  bs=1048576 skip="$3" count="$4" iflag=fullblock status=none
