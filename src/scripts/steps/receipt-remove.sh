#!/bin/sh -eu
# Removes kubexm's directory, with the receipt and the record of the cluster last: until then another reset can continue. A
# file system that is mounted below it stays, and prints a line `kept mounted PATH`.
base=/var/lib/kubexm
[ -d "$base" ] || exit 0
# /proc/mounts has \040 for a blank in a path.
mounts=$(awk '{ gsub(/\\040/, " ", $2); print $2 "/" }' /proc/mounts)
for entry in "$base"/* "$base"/.[!.]*; do
  [ -e "$entry" ] || [ -L "$entry" ] || continue
  case $entry in "$base/receipt.jsonl" | "$base/cluster") continue ;; esac
  case $mounts in
  *"$entry/"*) printf 'kept mounted %s\n' "$entry" ;;
  *) rm -rf --one-file-system "$entry" ;;
  esac
done
# A receipt without the record would not say to which cluster the host belongs.
rm -f "$base/receipt.jsonl"
rm -f "$base/cluster"
rmdir "$base" 2>/dev/null || :
