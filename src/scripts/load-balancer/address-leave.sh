#!/bin/sh -eu
# Checks whether this host does not have the address of the endpoint, or lets kube-vip give it to another control plane.
# Arguments: `check` or `apply`, IP address; for `apply`, the URL of API servers with this address.
export PATH="/usr/local/bin:$PATH"
address=$2
is_here() { [ -n "$(ip -o addr show to "$address" 2>/dev/null)" ]; }
# Whether an API server answers at the address. Its certificate always has the name `kubernetes`.
answers() {
  kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl --server "$server" \
    --tls-server-name kubernetes --request-timeout=5s get --raw /readyz >/dev/null 2>&1
}
# With SIGTERM, kube-vip removes the address and releases its lease. The kubelet starts it again.
leave() {
  for container in $(crictl ps --state running --name '^kube-vip$' -q); do
    crictl stop --timeout 10 "$container" >/dev/null
  done
}
case $1 in
check)
  ! is_here || { echo "kube-vip on this host has $address"; exit 1; }
  ;;
apply)
  server=$3 left=30
  leave
  until ! is_here && answers; do
    # The one of this host can get the lease before another one has noticed that it is free.
    ! is_here || leave
    left=$((left - 1))
    # The address returns if no other control plane is healthy. The endpoint then fails while this one restarts.
    [ "$left" -gt 0 ] || { echo "no other control plane takes $address"; exit 0; }
    sleep 1
  done
  ;;
*) echo "usage: address-leave.sh check|apply" >&2; exit 2 ;;
esac
