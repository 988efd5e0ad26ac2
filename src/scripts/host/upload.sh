#!/bin/sh -eu
# Writes a file: first to a temporary name beside it, then, if the digest matches, under its own name.
#   path   where the file is
#   mode   its mode, in octal digits
#   owner  its owner as chown reads it, as in `user` or `:group`; default: root
# Standard input: a line with the SHA-256 of the content, then the content. The digest of a secret is secret, too, and every
# user of the host can read arguments.
: "${verb=}" "${path=}" "${mode=}" "${owner=}"
if [ -d "$path" ] && [ ! -L "$path" ]; then
  printf '%s\n' "$path is a directory, but kubexm must write a file there" "hint: move it away" >&2
  exit 1
fi
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
read -r digest || { echo "the content of $path did not arrive" >&2; exit 1; }
cat >"$partial"
got=$(sha256sum <"$partial" | cut -d' ' -f1)
if [ "$got" != "$digest" ]; then
  echo "the content of $path did not arrive completely, or was changed on its way" >&2
  exit 1
fi
if [ -n "$owner" ] && ! said=$(chown "$owner" "$partial" 2>&1); then
  printf '%s\n' "$said" "hint: create the user and the group on this host" >&2
  exit 1
fi
chmod "$mode" "$partial"
replace "$partial" "$path"
trap - EXIT
if command -v restorecon >/dev/null; then restorecon "$path" || :; fi
