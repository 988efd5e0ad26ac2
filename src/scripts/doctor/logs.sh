#!/bin/sh -eu
# Prints the newest log entries of the cluster's units and containers on this host, in the form of `systemd/logs.sh`: a line
# `= unit NAME` or `= pod NAMESPACE_NAME` before the entries of each source, which start with `|`. The first line is
# `now=SECONDS`, the clock of the host. Needs no API server, and changes nothing.
# Arguments: the largest number of entries of each source; the age in minutes up to which entries count; units.
count=$1 minutes=$2
shift 2
now=$(date +%s)
echo "now=$now"
for unit; do
  echo "= unit $unit"
  timeout -k 1 10 journalctl -u "$unit" -o json --output-fields=MESSAGE -n "$count" --since "@$((now - minutes * 60))" \
    --no-pager --quiet 2>/dev/null </dev/null | cut -c1-2000 | sed 's/^/|/' || :
done
echo "= unit kernel"
timeout -k 1 10 journalctl -k -o json --output-fields=MESSAGE -n "$count" --since "@$((now - minutes * 60))" \
  --no-pager --quiet 2>/dev/null </dev/null | cut -c1-2000 | sed 's/^/|/' || :
# At most 60 containers of the cluster itself. Pods of users may log secrets, and any text.
timeout -k 1 10 find /var/log/pods -mindepth 3 -maxdepth 3 -path '/var/log/pods/kube-*' -name '*.log' -mmin "-$minutes" 2>/dev/null | sort | tail -n 60 | while read -r file; do
  pod=${file#/var/log/pods/}
  pod=${pod%%/*}
  echo "= pod ${pod%_*}"
  timeout -k 1 5 tail -n "$count" "$file" 2>/dev/null | cut -c1-2000 | sed 's/^/|/' || :
done
echo "end="
