#!/bin/sh -eu
# Prints the newest log entries of a program: those of its unit as JSON, and the log files of its containers. A line that
# starts with `= ` names the source of the lines below it, which start with `|`.
#   name   the name of a unit or of a container
#   count  the largest number of entries of each source
#   since  the earliest time of entries, in seconds since 1970. Of a container, later entries with an earlier time are printed,
#          too: the clock was changed.
: "${verb=}" "${name=}" "${count=}" "${since=}"
# Prints the lines of a log file since the first one of the time, and the lines before it that have the start of its text. The
# CRI has `TIME STREAM TAGS TEXT`, with the tag P for a text that goes on; Docker has JSON with `log` first and `time` last. A
# time is in UTC, or has an offset.
# shellcheck disable=SC2016 # The program is not of the shell.
since_time='
function seconds(t,  year, month, days, zone) {
  year = substr(t, 1, 4); month = substr(t, 6, 2) - 3
  # The year starts in March, so that a leap day is its last day.
  if (month < 0) { month += 12; year-- }
  days = 365 * year + int(year / 4) - int(year / 100) + int(year / 400) + int((153 * month + 2) / 5) + substr(t, 9, 2) - 719469
  zone = substr(t, length(t) - 5)
  zone = zone ~ /^[+-][0-9][0-9]:[0-9][0-9]$/ ? (substr(zone, 1, 1) 1) * (substr(zone, 2, 2) * 60 + substr(zone, 5, 2)) : 0
  return days * 86400 + substr(t, 12, 2) * 3600 + (substr(t, 15, 2) - zone) * 60 + substr(t, 18, 2)
}
found { print; next }
/^[{]/ { time = $0; sub(/.*"time":"/, "", time); sub(/".*/, "", time); goes_on = !index($0, "\\n\",\"") }
!/^[{]/ { time = $1; goes_on = $3 ~ /(^|:)P(:|$)/ }
time !~ /^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T/ { next }
seconds(time) < since { if (goes_on) begun[parts++] = $0; else parts = 0; next }
{ found = 1; for (part = 0; part < parts; part++) print begun[part]; print }
'
for unit in "$name.service" "kubexm-$name.service"; do
  systemctl cat "$unit" >/dev/null 2>&1 || continue
  echo "= unit ${unit%.service}"
  # Without --all, the journal has no text of more than 4096 bytes.
  journalctl -u "$unit" -o json --all --output-fields=MESSAGE -n "$count" --since "@$since" --no-pager --quiet | sed 's/^/|/'
done
for folder in /var/log/pods/*_*_*/"$name"; do
  [ -d "$folder" ] || continue
  pod=${folder#/var/log/pods/}
  pod=${pod%/*}
  echo "= pod ${pod%_*}"
  # The number of a file is that of the container's restarts.
  for file in "$folder"/*.log; do
    [ ! -e "$file" ] || echo "$file"
  done | sort -V | while read -r file; do
    # Lines are older than their file. `--follow` asks every second, and most files have no new line.
    changed=$(stat -L -c %Y "$file" 2>/dev/null) || continue
    [ "$changed" -lt "$since" ] || tail -n "$count" "$file" || continue
  done | tail -n "$count" | LC_ALL=C awk -v "since=$since" "$since_time" | sed 's/^/|/'
done
