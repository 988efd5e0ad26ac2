#!/bin/sh -eu
# Keeps the address of the endpoint away from this host while its API server restarts: checks whether another control plane has
# it and kube-vip of this host cannot take it, or achieves this; checks whether kube-vip can take it again, or lets it.
# Arguments: `check`, `apply`, `returned` or `return`, IP address; for `apply`, the URL of API servers with this address.
export PATH="/usr/local/bin:$PATH"
address=$2 timer=kubexm-endpoint
is_here() { [ -n "$(ip -o addr show to "$address" 2>/dev/null)" ]; }
# Whether an API server answers at the address. Its certificate always has the name `kubernetes`.
answers() {
  kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl --server "$server" \
    --tls-server-name kubernetes --request-timeout=5s get --raw /readyz >/dev/null 2>&1
}
# With SIGTERM, kube-vip removes the address and releases its lease. The kubelet starts it again.
leave() {
  for container in $(crictl ps --state running --label io.kubernetes.pod.namespace=kube-system --name '^kube-vip$' -q); do
    crictl stop --timeout 10 "$container" >/dev/null
  done
}
# Prints the processes of kube-vip that take this address. Those for addresses of services go on.
processes() {
  for process in /proc/[0-9]*; do
    name=''
    # A process can end at any time.
    { read -r name <"$process/comm" || :; } 2>/dev/null
    [ "$name" != kube-vip ] || ! grep -qszxF "address=$address" "$process/environ" || echo "${process#/proc/}"
  done
}
# Prints those that are stopped by a signal.
stopped() {
  for process in $(processes); do
    ! grep -qs '^State:[[:space:]]*T' "/proc/$process/status" || echo "$process"
  done
}
resume() {
  for process in $(stopped); do kill -CONT "$process" 2>/dev/null || :; done
  systemctl stop "$timer.timer" 2>/dev/null || :
}
# A process that is stopped renews no lease and takes no address. Succeeds if kube-vip runs and is stopped.
pause() {
  found=$(processes)
  [ -n "$found" ] || return 1
  systemctl stop "$timer.timer" 2>/dev/null || :
  # If kubexm ends before it resumes them, the timer does.
  # shellcheck disable=SC2086 # one argument for each process
  systemd-run --quiet --collect --unit="$timer" --on-active=300 /bin/kill -CONT $found
  for process in $found; do kill -STOP "$process" 2>/dev/null || return 1; done
  # A process stops when it runs next, which takes time on a busy host.
  tries=50
  until [ "$found" = "$(stopped)" ]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}
case $1 in
check)
  ! is_here || { echo "kube-vip on this host has $address"; exit 1; }
  found=$(processes)
  [ "$found" = "$(stopped)" ] || { echo "kube-vip on this host can take $address"; exit 1; }
  ;;
apply)
  server=$3 left=30
  while :; do
    if is_here; then
      # The one of this host can get the lease before another one has noticed that it is free.
      resume
      leave
    elif answers && pause; then
      # It can have taken the address just before.
      if ! is_here && answers; then exit 0; fi
      resume
    fi
    left=$((left - 1))
    # The address returns if no other control plane is healthy. The endpoint then fails while this one restarts.
    [ "$left" -gt 0 ] || break
    sleep 1
  done
  if ! is_here && answers; then exit 0; fi
  echo "no other control plane takes $address"
  ;;
returned)
  [ -z "$(stopped)" ] || { echo "kube-vip on this host cannot take the address of the endpoint"; exit 1; }
  ;;
return) resume ;;
*) echo "usage: address-leave.sh check|apply|returned|return" >&2; exit 2 ;;
esac
