#!/bin/sh -eu
# Prints the newest log entries of a program: those of its unit as JSON, and the log files of its containers. A line that
# starts with `= ` names the source of the lines below it, which start with `|`.
# Arguments: the name of a unit or of a container; the largest number of entries of each source; the earliest time of entries
# of the journal, in seconds since 1970.
name=$1 count=$2 since=$3
for unit in "$name.service" "kubexm-$name.service"; do
  systemctl cat "$unit" >/dev/null 2>&1 || continue
  echo "= unit ${unit%.service}"
  journalctl -u "$unit" -o json -n "$count" --since "@$since" --no-pager --quiet | sed 's/^/|/'
done
for folder in /var/log/pods/*_*_*/"$name"; do
  [ -d "$folder" ] || continue
  pod=${folder#/var/log/pods/}
  pod=${pod%/*}
  echo "= pod ${pod%_*}"
  # The number of a file is that of the container's restarts.
  for file in "$folder"/*.log; do
    [ ! -e "$file" ] || echo "$file"
  done | sort -V | while read -r file; do cat "$file"; done | tail -n "$count" | sed 's/^/|/'
done
