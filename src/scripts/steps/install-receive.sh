#!/bin/sh -eu
# Unpacks a tar of numbered files from standard input into a staging directory, compares their digests, and
# moves each to its path.
# Arguments: number, path, SHA-256 and mode of each file.
umask 077
mkdir -p /var/lib/kubexm/staging
# Each run has its own directory, because the receiver of a killed run may still work. Directories without a
# lock are leftovers.
for old in /var/lib/kubexm/staging/*; do
  [ ! -d "$old" ] || flock -n "$old" rm -rf "$old" || :
done
staging=$(mktemp -d /var/lib/kubexm/staging/XXXXXX)
trap 'rm -rf "$staging"; rmdir /var/lib/kubexm/staging 2>/dev/null || :' EXIT
exec 9<"$staging"
flock 9
tar -x --no-same-owner -C "$staging"
while [ $# -gt 0 ]; do
  number=$1 path=$2 digest=$3 mode=$4
  shift 4
  got=$(sha256sum <"$staging/$number" | cut -d' ' -f1)
  if [ "$got" != "$digest" ]; then
    echo "the content of $path arrived with the digest $got instead of $digest" >&2
    exit 1
  fi
  (umask 022; mkdir -p "$(dirname "$path")")
  # The staging directory may be on another file system, so only the last rename is atomic.
  new=$(dirname "$path")/.$(basename "$path").kubexm-new
  cp "$staging/$number" "$new" || { rm -f "$new"; exit 1; }
  chmod "$mode" "$new"
  replace "$new" "$path"
  if command -v restorecon >/dev/null; then restorecon "$path" || :; fi
done
