#!/bin/sh -eu
# Waits until the file systems of paths are on disk, so that a power failure does not undo what a task did.
# Arguments: paths; a path that does not exist stands for the nearest directory above it.
seen=
for path in "$@"; do
  while [ ! -e "$path" ]; do path=$(dirname "$path"); done
  device=$(stat -c %d "$path")
  case " $seen " in *" $device "*) continue ;; esac
  seen="$seen $device"
  # coreutils before 8.24 has no option for one file system.
  sync -f "$path" 2>/dev/null || { sync; break; }
done
