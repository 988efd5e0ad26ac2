#!/bin/sh -eu
# Prints the metric about requests for deprecated resources of all API servers that answer. Each counts its own requests since it
# started. Another check is about one that does not answer.
# Arguments: URLs of all API servers.
answered=
for server in "$@"; do
  counted=$(kubectl --server "$server" --tls-server-name kubernetes get --raw /metrics 2>/dev/null) || continue
  answered=yes
  printf '%s\n' "$counted" | grep '^apiserver_requested_deprecated_apis{' || :
done
[ -n "$answered" ] || exit 75
