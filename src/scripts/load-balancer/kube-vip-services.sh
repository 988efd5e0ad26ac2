#!/bin/sh -eu
# Checks whether kube-vip assigns no addresses to services on this host, or ends that.
#   check  checks whether the kubelet has no manifest of the pod, and whether an earlier `stop` has ended
#   stop   removes the manifest, ends the pod, and removes the addresses that its log names
# Arguments: verb, path of the manifest. For `stop`: addresses that stay.
export PATH="/usr/local/bin:$PATH"
manifest=$2
# The kubelet removes the logs together with the pod, so a killed script leaves this list. A restart of the host removes
# both the list and the addresses.
list=/run/kubexm/service-addresses
# Prints interface and address, as in `eth0 192.0.2.9/32`. kube-vip logs each address of a service as a VIP.
assigned() {
  ip -o addr | awk '$4 ~ /^[0-9.]+\/32$/ || $4 ~ /^[0-9a-f:]+\/128$/ { print $2, $4 }' |
    while read -r interface address; do
      ! cat /var/log/pods/kube-system_kube-vip-services-*/*/*.log 2>/dev/null | grep VIP | grep -qwF "${address%/*}" ||
        echo "$interface $address"
    done
}
case $1 in
check)
  for left in "$manifest" "$list"; do
    [ ! -e "$left" ] || { echo "kube-vip assigns addresses to services"; exit 1; }
  done
  ;;
stop)
  shift 2
  umask 077
  install -d -m 700 /run/kubexm
  assigned >>"$list"
  rm -f "$manifest"
  if command -v crictl >/dev/null; then
    # kube-vip removes its addresses when it gets SIGTERM. `crictl rmp -f` would kill it.
    for pod in $(crictl pods -q --name kube-vip-services 2>/dev/null || :); do
      containers=$(crictl ps -q --pod "$pod" 2>/dev/null || :)
      [ -z "$containers" ] || printf '%s\n' "$containers" | xargs crictl stop --timeout 20 >/dev/null 2>&1 || :
    done
  fi
  while read -r interface address; do
    case " $* " in *" ${address%/*} "*) continue ;; esac
    ip addr del "$address" dev "$interface" 2>/dev/null || :
  done <"$list"
  rm -f "$list"
  ;;
*) echo "usage: kube-vip-services.sh check|stop" >&2; exit 2 ;;
esac
