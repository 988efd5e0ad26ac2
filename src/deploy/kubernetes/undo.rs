//! What the kubelet, kube-proxy and pod networks leave on a host, taken back.

/// Ends pods and takes links and rules away.
pub(super) const TRACES: &str = r#"
systemctl stop kubepods.slice 2>/dev/null || :
# Only where kube-proxy used ipvs: the tables may be somebody else's.
if [ -d /sys/class/net/kube-ipvs0 ] && command -v ipvsadm >/dev/null; then ipvsadm --clear || :; fi
for link in cni0 flannel.1 flannel-v6.1 kube-ipvs0; do ip link del "$link" 2>/dev/null || :; done
for save in iptables ip6tables; do
  command -v $save-save >/dev/null || continue
  for table in filter nat mangle raw; do
    $save -t $table -S 2>/dev/null | grep -E '^-A' | grep -E 'KUBE-|CNI-|FLANNEL|flannel' |
      sed 's/^-A/-D/' | while read -r rule; do eval "$save -t $table $rule" 2>/dev/null || :; done
    $save -t $table -S 2>/dev/null | sed -n 's/^-N \(\(KUBE-\|CNI-\|FLANNEL\).*\)/\1/p' |
      while read -r chain; do $save -t $table -F "$chain"; $save -t $table -X "$chain" || :; done
  done
done
if command -v ipset >/dev/null; then
  ipset list -n 2>/dev/null | grep '^KUBE-' | while read -r set; do ipset destroy "$set" || :; done
fi
if command -v nft >/dev/null; then
  for table in 'ip kube-proxy' 'ip6 kube-proxy' 'ip flannel-ipv4' 'ip6 flannel-ipv6'; do
    nft delete table $table 2>/dev/null || :
  done
fi
"#;
