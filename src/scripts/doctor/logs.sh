#!/bin/sh -eu
# Prints the newest log entries of the cluster's units and containers on this host, in the form of `systemd/logs.sh`: a line
# `= unit NAME` or `= pod NAMESPACE_NAME` before the entries of each source, which start with `|`. The first line is
# `now=SECONDS`, the clock of the host. Needs no API server, and changes nothing.
# Arguments: the largest number of entries of each source; the age in minutes up to which entries count; units.
count=$1 minutes=$2
shift 2
now=$(date +%s)
# Passes entries with at most 2000 bytes of their text. JSON stays valid: an entry of the journal gets only its time and its text,
# and no text ends within an escape.
short() {
  LC_ALL=C awk '
    function text(from) {
      from = substr($0, from, 2000)
      match(from, /^([^"\\]|\\[^u]|\\u[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f])*/)
      return substr(from, 1, RLENGTH)
    }
    { message = "" }
    /^[{]/ && match($0, /"MESSAGE" *: *"/) { message = "\"" text(RSTART + RLENGTH) "\"" }
    # Text that is not UTF-8, or that has control characters: the numbers of its bytes.
    /^[{]/ && match($0, /"MESSAGE" *: *\[[0-9, ]+/) {
      message = substr($0, RSTART, RLENGTH)
      sub(/^[^[]*\[/, "", message)
      if (length(message) > 8000) { message = substr(message, 1, 8000); sub(/,[^,]*$/, "", message) }
      message = "[" message "]"
    }
    message != "" && match($0, /"__REALTIME_TIMESTAMP" *: *"[0-9]+"/) { print "{" substr($0, RSTART, RLENGTH) ",\"MESSAGE\":" message "}"; next }
    # A line of Docker, whose time is behind its text.
    /^[{]"log":"/ && length($0) > 2000 {
      time = $0
      sub(/.*"time":"/, "", time)
      sub(/".*/, "", time)
      print "{\"log\":\"" text(9) "\\n\",\"time\":\"" time "\"}"
      next
    }
    { print substr($0, 1, 2000) }'
}
# Prints the newest entries of the journal. Without --all, it has no text of more than 4096 bytes. Arguments: which entries.
journal() {
  timeout -k 1 10 journalctl "$@" -o json --all --output-fields=MESSAGE -n "$count" --since "@$((now - minutes * 60))" \
    --no-pager --quiet 2>/dev/null </dev/null | short | sed 's/^/|/' || :
}
echo "now=$now"
for unit; do
  echo "= unit $unit"
  journal -u "$unit"
done
echo "= unit kernel"
journal -k
# At most 60 containers of the cluster itself. Pods of users may log secrets, and any text.
timeout -k 1 10 find /var/log/pods -mindepth 3 -maxdepth 3 -path '/var/log/pods/kube-*' -name '*.log' -mmin "-$minutes" 2>/dev/null | sort | tail -n 60 | while read -r file; do
  pod=${file#/var/log/pods/}
  pod=${pod%%/*}
  echo "= pod ${pod%_*}"
  timeout -k 1 5 tail -n "$count" "$file" 2>/dev/null | short | sed 's/^/|/' || :
done
echo "end="
