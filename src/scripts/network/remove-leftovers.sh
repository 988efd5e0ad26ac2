#!/bin/sh -eu
# Removes leftovers of pods from their host after they have ended, such as interfaces, routes and rules.
# Arguments: the owner of the leftovers: `kubernetes` (kubelet, kube-proxy, flannel), `bridge`, `calico`, `cilium` or
# `node-local-dns`.

# Deletes rules, then chains. iptables-restore reads a rule in the quoting in which `iptables -S` prints it;
# a shell would execute what a comment contains.
# Arguments: tables, pattern of rules, pattern of chains or nothing.
delete_rules() {
  for iptables in iptables ip6tables; do
    command -v "$iptables-restore" >/dev/null || continue
    for table in $1; do
      "$iptables" -t "$table" -S 2>/dev/null | grep '^-A' | grep -E "$2" | sed 's/^-A/-D/' |
        while read -r rule; do
          printf '*%s\n%s\nCOMMIT\n' "$table" "$rule" | "$iptables-restore" --noflush 2>/dev/null || :
        done
      [ -n "$3" ] || continue
      "$iptables" -t "$table" -S 2>/dev/null | sed -n 's/^-N //p' | grep -E "$3" |
        while read -r chain; do
          "$iptables" -t "$table" -F "$chain" || :
          "$iptables" -t "$table" -X "$chain" || :
        done
    done
  done
}
# Arguments: names of links.
delete_links() {
  for link in "$@"; do ip link del "$link" 2>/dev/null || :; done
}
# Arguments: prefix of names.
delete_links_with() {
  for link in /sys/class/net/"$1"*; do
    [ ! -e "$link" ] || delete_links "${link##*/}"
  done
}
# Arguments: prefix of names.
delete_sets_with() {
  command -v ipset >/dev/null || return 0
  ipset list -n 2>/dev/null | grep "^$1" | while read -r set; do ipset destroy "$set" || :; done
}
# Arguments: family, name.
delete_nft_table() {
  ! command -v nft >/dev/null || nft delete table "$1" "$2" 2>/dev/null || :
}

case $1 in
kubernetes)
  systemctl stop kubepods.slice 2>/dev/null || :
  # Only if kube-proxy used ipvs. Otherwise the tables belong to another program.
  if [ -d /sys/class/net/kube-ipvs0 ] && command -v ipvsadm >/dev/null; then ipvsadm --clear || :; fi
  delete_links cni0 flannel.1 flannel-v6.1 kube-ipvs0
  delete_rules 'filter nat mangle raw' 'KUBE-|CNI-|FLANNEL|flannel' '^(KUBE-|CNI-|FLANNEL)'
  delete_sets_with KUBE-
  delete_nft_table ip kube-proxy
  delete_nft_table ip6 kube-proxy
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
  delete_links_with cali
  [ ! -e /sys/class/net/tunl0 ] || { ip addr flush dev tunl0; ip link set tunl0 down; }
  # Protocols of Calico's routes: that of its BGP daemon, and its own.
  for protocol in bird 80; do
    ip route flush proto "$protocol" 2>/dev/null || :
    ip -6 route flush proto "$protocol" 2>/dev/null || :
  done
  delete_rules 'filter nat mangle raw' cali '^cali'
  delete_nft_table ip calico
  delete_nft_table ip6 calico
  delete_sets_with cali
  ;;
cilium)
  delete_links cilium_vxlan cilium_geneve cilium_host cilium_net
  delete_links_with lxc
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
  delete_rules 'filter nat mangle raw' CILIUM '^(OLD_)?CILIUM'
  ;;
node-local-dns)
  # The cache removes its device and its rules when it receives a signal. A reset kills it.
  delete_links nodelocaldns
  delete_rules 'raw filter' 'NodeLocal DNS Cache' ''
  ;;
*) echo "usage: remove-leftovers.sh kubernetes|bridge|calico|cilium|node-local-dns" >&2; exit 2 ;;
esac
