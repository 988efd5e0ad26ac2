#!/bin/sh -eu
# Writes standard input to a file: first to a temporary name beside it, then, if the digest matches,
# under its own name.
# Arguments: path, mode in octal digits, SHA-256.
path=$1 mode=$2 digest=$3
folder=$(dirname "$path")
name=$(basename "$path")
(umask 022; mkdir -p "$folder")
umask 077
# The name starts with a dot, because the kubelet and other programs read every other file in some directories.
# It contains the name of the file, so that the next run, or a reset, after a power failure can find the
# temporary file.
rm -f "$folder/.$name".kubexm-??????
partial=$(mktemp "$folder/.$name.kubexm-XXXXXX")
trap 'rm -f "$partial"' EXIT
cat >"$partial"
got=$(sha256sum "$partial" | cut -d' ' -f1)
if [ "$got" != "$digest" ]; then
  echo "the content of $path arrived with the digest $got instead of $digest" >&2
  exit 1
fi
chmod "$mode" "$partial"
mv -f "$partial" "$path"
trap - EXIT
if command -v restorecon >/dev/null; then restorecon "$path" || :; fi
