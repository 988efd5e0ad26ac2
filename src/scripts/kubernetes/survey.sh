#!/bin/sh -eu
# Prints what a reset deletes from this host: `since SECONDS`, the time of its first install since the epoch, and
# `data KIND KIB` with the size on disk of each kind of data, or `data KIND unknown`.
# Arguments: kind and directory, repeatedly.
oldest=
for file in /var/lib/kubexm/cluster /var/lib/kubexm/receipt.jsonl /var/lib/kubexm/done/*; do
  [ -e "$file" ] || continue
  time=$(stat -c %Y "$file")
  if [ -z "$oldest" ] || [ "$time" -lt "$oldest" ]; then oldest=$time; fi
done
[ -z "$oldest" ] || echo "since $oldest"
while [ $# -gt 0 ]; do
  if [ -d "$2" ]; then
    size=$(timeout 20 du -skx "$2" 2>/dev/null | cut -f1)
    echo "data $1 ${size:-unknown}"
  fi
  shift 2
done
