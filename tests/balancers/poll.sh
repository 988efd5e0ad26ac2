# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# Requests to the endpoint while a command changes the cluster, and what failed meanwhile. Sourced by tests/e2e-balancers.

poll() { # asks the endpoint until it is killed, and prints a line for each request
  # An API server that ends is not ready any more, but it answers until its clients have gone.
  while :; do
    if kubectl --request-timeout=5s get --raw /api/v1/namespaces/kube-system >/dev/null 2>&1; then
      echo "answered $EPOCHREALTIME"
    else
      echo "failed $(date +%s)"
    fi
    sleep 0.2
  done
}
polled() { # COMMAND…: runs it while the endpoint is asked
  local status=0
  echo "begun $EPOCHREALTIME" >"$work/polled"
  poll >>"$work/polled" &
  watcher=$!
  "$@" || status=$?
  kill "$watcher"
  wait "$watcher" || true
  watcher=''
  echo "ended $EPOCHREALTIME" >>"$work/polled"
  return "$status"
}
# Prints the longest time without an answer, in seconds.
silence() {
  awk '$1 != "failed" { if (last && $2 - last > longest) longest = $2 - last; last = $2 } END { printf "%.1f\n", longest }' "$work/polled"
}
answered_each() { # SECONDS: the endpoint was never silent for longer
  echo "it was silent for $(silence) s"
  [ "$(grep -c '^answered' "$work/polled")" -ge 5 ] && within "$(silence)" "$1"
}
outages() { # prints how many requests to the endpoint failed, and what kubexm and kube-vip did around them
  local times first last host
  times=$(sed -n 's/^failed //p' "$work/polled")
  printf '    %s: %s answers, %s failures, at most %s s without an answer:%s\n' "$type" "$(grep -c '^answered' "$work/polled")" \
    "$(grep -c '^failed' "$work/polled")" "$(silence)" "$(for first in $times; do date -d "@$first" +' %T'; done | uniq | tr -d '\n')"
  [ -n "$times" ] || return 0
  first=$(date -u -d "@$(($(head -n 1 <<<"$times") - 20))" +%FT%T)
  last=$(date -u -d "@$(($(tail -n 1 <<<"$times") + 10))" +%FT%T)
  jq -r --arg first "$first" --arg last "$last" 'select(.time >= $first and .time <= $last) | "    \(.time) \(.host // "") \(.event) \(
    .step // .title // .phase // "")"' "$state/journal.jsonl"
  for host in node1 node2 node3; do
    # A host that is off has no logs.
    # shellcheck disable=SC2016 # expands on the host
    on "$host" sh -c 'cat /var/log/pods/kube-system_kube-vip*/kube-vip/*.log 2>/dev/null | sort |
      awk -v first="$1" -v last="$2" "\$1 >= first && \$1 <= last"; ip -o addr show | grep inet' sh "$first" "$last" |
      cut -c1-220 | sed "s/^/    $host /" || true
  done
}
