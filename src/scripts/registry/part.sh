#!/bin/sh -eu
# Prints a part of a blob in the storage of a registry; nothing after its end.
#   data    the registry's data directory
#   digest  SHA-256 of the blob
#   first   number of the first MiB, from 0
#   count   number of MiB
: "${verb=}" "${data=}" "${digest=}" "${first=}" "${count=}"
dd if="$data/docker/registry/v2/blobs/sha256/$(printf %.2s "$digest")/$digest/data" \
  bs=1048576 skip="$first" count="$count" iflag=fullblock status=none
