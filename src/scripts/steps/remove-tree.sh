#!/bin/sh -eu
# Removes a directory with its content. Unmounts the file systems below it first, and removes nothing from a
# file system that stays mounted: its data may not belong to this cluster.
# Arguments: path.
awk -v root="$1/" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mount; do
  # /proc/mounts has \040 for a blank in a path.
  mount=$(printf %b "$mount")
  umount "$mount" || umount -l "$mount"
done
rm -rf --one-file-system "$1"
