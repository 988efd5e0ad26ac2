#!/bin/sh -eu
# Removes a folder with everything in it. Unmounts the file systems below it first, and removes nothing
# from a file system that stays mounted: it may hold data that is not of this cluster.
# Arguments: path.
awk -v root="$1/" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mount; do
  # A blank in a path is \040 there.
  mount=$(printf %b "$mount")
  umount "$mount" || umount -l "$mount"
done
rm -rf --one-file-system "$1"
