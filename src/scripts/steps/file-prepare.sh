#!/bin/sh -eu
# Copies a file that is about to be overwritten and prints what the receipt must record: `backup` and the
# copy, or a line `folder` for each directory that does not exist yet, the innermost first.
# Arguments: path.
path=$1
if [ -d "$path" ] && [ ! -L "$path" ]; then
  printf '%s\n' "$path is a directory, but kubexm must write a file there" "hint: move it away" >&2
  exit 1
fi
if [ -e "$path" ] || [ -L "$path" ]; then
  umask 077
  mkdir -p /var/lib/kubexm/backup
  backup=/var/lib/kubexm/backup/$(printf %s "$path" | sha256sum | cut -c1-32)
  if [ ! -e "$backup" ] && [ ! -L "$backup" ]; then
    # The copy gets its name when it is complete, because a reset would restore an incomplete one.
    cp -a "$path" "$backup.partial"
    sync "$backup.partial" 2>/dev/null || :
    mv -fT "$backup.partial" "$backup"
  fi
  echo "backup $backup"
else
  folder=$(dirname "$path")
  while [ ! -d "$folder" ]; do echo "folder $folder"; folder=$(dirname "$folder"); done
fi
