#!/bin/sh -eu
# Removes leftovers of pods from their host after they have ended, such as interfaces, routes and rules. Everything
# is found by the exact names that its owner gives it. A comment that only contains such a name does not count.
# Arguments: the owner of the leftovers: `kubernetes` (kubelet, kube-proxy, CNI plugins, flannel), `bridge`, `calico`,
# `cilium` or `node-local-dns`.

# Arguments: names of links.
delete_links() {
  for link in "$@"; do ip link del "$link" 2>/dev/null || :; done
}
# Arguments: pattern of names.
delete_links_like() {
  for link in /sys/class/net/*; do
    [ -e "$link" ] || continue
    ! printf '%s\n' "${link##*/}" | grep -Eqx "$1" || delete_links "${link##*/}"
  done
}
# Arguments: pattern of names.
delete_sets_like() {
  command -v ipset >/dev/null || return 0
  ipset list -n 2>/dev/null | grep -Ex "$1" | while read -r set; do ipset destroy "$set" || :; done
}
# Arguments: family, name.
delete_nft_table() {
  ! command -v nft >/dev/null || nft delete table "$1" "$2" 2>/dev/null || :
}
# Deletes kube-proxy's virtual servers: those with an address of its device, and those of its node ports. Others may
# belong to a load balancer of the site.
delete_virtual_servers() {
  [ -d /sys/class/net/kube-ipvs0 ] && command -v ipvsadm >/dev/null || return 0
  {
    ip -o addr show dev kube-ipvs0 | awk '{ sub(/\/.*/, "", $4); print "address", $4 }'
    for protocol in TCP UDP SCTP; do
      for set in "KUBE-NODE-PORT-$protocol" "KUBE-NODE-PORT-$protocol-HASH"; do
        ipset list "$set" 2>/dev/null |
          awk -v protocol="$protocol" 'members { sub(/.*:/, "", $1); print "port", protocol, $1 } /^Members:/ { members = 1 }'
      done
    done
    ipvsadm -S -n
  } | awk '
    $1 == "address" { addresses[$2] = 1 }
    $1 == "port" { ports[$2 " " $3] = 1 }
    $1 == "-A" {
      at = match($3, /:[0-9]+$/)
      address = substr($3, 1, at - 1)
      gsub(/[][]/, "", address)
      protocol = $2 == "-t" ? "TCP" : $2 == "-u" ? "UDP" : "SCTP"
      if ((address in addresses) || ((protocol " " substr($3, at + 1)) in ports)) print $2, $3
    }' | while read -r protocol service; do ipvsadm -D "$protocol" "$service" || :; done
}

case $1 in
kubernetes)
  systemctl stop kubepods.slice 2>/dev/null || :
  delete_virtual_servers
  delete_links cni0 flannel.1 flannel-v6.1 kube-ipvs0
  delete_rules kubernetes
  delete_sets_like 'KUBE-(6-)?(LOOP-BACK|CLUSTER-IP|EXTERNAL-IP(-LOCAL)?|LOAD-BALANCER(-FW|-LOCAL|-SOURCE-IP|-SOURCE-CIDR)?|NODE-PORT-(LOCAL-)?(TCP|UDP|SCTP-HASH)|HEALTH-CHECK-NODE-PORT|IPVS-IPS)'
  for family in ip ip6; do
    delete_nft_table "$family" kube-proxy
    delete_nft_table "$family" cni_hostport
  done
  delete_nft_table inet cni_plugins_masquerade
  delete_nft_table ip flannel-ipv4
  delete_nft_table ip6 flannel-ipv6
  ;;
bridge)
  delete_links cni0
  # The runtime needs this file to stop pods, so it is removed only here.
  rm -f /etc/cni/net.d/10-kubexm-bridge.conflist
  ;;
calico)
  delete_links vxlan.calico vxlan-v6.calico wireguard.cali wg-v6.cali
  delete_links_like 'cali[0-9a-f]{11}'
  [ ! -e /sys/class/net/tunl0 ] || { ip addr flush dev tunl0; ip link set tunl0 down; }
  # Protocols of Calico's routes: that of its BGP daemon, and its own. Pods have ended, so a BGP daemon that runs is
  # the host's.
  for protocol in bird 80; do
    [ "$protocol" != bird ] || ! pidof bird bird6 >/dev/null 2>&1 || continue
    ip route flush proto "$protocol" 2>/dev/null || :
    ip -6 route flush proto "$protocol" 2>/dev/null || :
  done
  delete_rules calico
  delete_nft_table ip calico
  delete_nft_table ip6 calico
  delete_sets_like 'cali(40|60|4t|6t)[A-Za-z0-9:_-]*'
  ;;
cilium)
  delete_links cilium_vxlan cilium_geneve cilium_host cilium_net lxc_health
  # lxcbr0 is the bridge of LXC.
  delete_links_like 'lxc[0-9a-f]{12}'
  rm -rf /sys/fs/bpf/cilium /sys/fs/bpf/tc
  if command -v tc >/dev/null; then
    for link in /sys/class/net/*; do
      ! tc filter show dev "${link##*/}" ingress 2>/dev/null | grep -q cil_ ||
        tc qdisc del dev "${link##*/}" clsact || :
    done
  fi
  for table in 2004 2005; do
    while ip rule del lookup "$table" 2>/dev/null; do :; done
    ip route flush table "$table" 2>/dev/null || :
  done
  delete_rules cilium
  # Network configurations of other programs, which the agent renamed. A file that has the name again stays as it is.
  for file in /etc/cni/net.d/*.cilium_bak; do
    [ ! -f "$file" ] || [ -e "${file%.cilium_bak}" ] || replace "$file" "${file%.cilium_bak}"
  done
  ;;
node-local-dns)
  # The cache removes its device and its rules when it receives a signal. A reset kills it.
  delete_links nodelocaldns
  delete_rules node-local-dns
  ;;
*) echo "usage: remove-leftovers.sh kubernetes|bridge|calico|cilium|node-local-dns" >&2; exit 2 ;;
esac
