#!/bin/sh -eu
# Removes directories that an install created above a directory of the cluster, if they are empty.
# Arguments: the directories, the innermost first.
for folder in "$@"; do
  [ ! -d "$folder" ] || [ -L "$folder" ] || rmdir "$folder" 2>/dev/null || :
done
