//! What kubeadm did, taken back.

use std::net::SocketAddr;

use crate::deploy::BIN;
use crate::spec::cluster::HostSpec;
use crate::steps::Undo;

/// Takes back all that kubeadm, the kubelet and kube-proxy did on a host.
const RESET: &str = r#"
export PATH=/usr/local/bin:$PATH
systemctl stop kubelet 2>/dev/null || :
if command -v kubeadm >/dev/null; then
  # All control planes are reset at once: asking the others for the configuration, or to strike this
  # one off etcd's members, would only wait for those that are gone already.
  rm -f /etc/kubernetes/admin.conf
  kubeadm reset -f --skip-phases=remove-etcd-member \
    --cri-socket unix:///run/containerd/containerd.sock >/dev/null 2>&1 || :
fi
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
rm -f /var/lib/kubexm/done/kubeadm-*
"#;

/// Takes back what a try of init or join left that did not come through.
const CLEANUP: &str = r#"
rm -f /etc/kubernetes/admin.conf
kubeadm reset -f --skip-phases=remove-etcd-member \
  --cri-socket unix:///run/containerd/containerd.sock >/dev/null || :
rm -rf /var/lib/etcd/member
"#;

/// Strikes this host off etcd's members, while its own etcd still runs and counts for the quorum.
/// `kubeadm reset` does so only for hosts that are nodes already, and a member that comes back
/// without its data never starts. A join that has no admin.conf yet has added no member.
const LEAVE_ETCD: &str = r#"
members() {
  kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl --request-timeout=30s \
    -n kube-system exec "etcd-$first" -- etcdctl --cacert /etc/kubernetes/pki/etcd/ca.crt \
    --cert /etc/kubernetes/pki/etcd/peer.crt --key /etc/kubernetes/pki/etcd/peer.key member "$@"
}
if [ -e /etc/kubernetes/admin.conf ]; then
  list=$(members list)
  member=$(printf '%s\n' "$list" | awk -F', ' -v peer="$peer" '$4 == peer { print $1 }')
  # Right after a member came or went etcd calls itself unhealthy for some seconds and removes none.
  left=30
  until [ -z "$member" ] || said=$(members remove "$member" 2>&1); do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { printf '%s\n' "$said" >&2; exit 1; }
    sleep 2
  done
fi
"#;

/// Cleans up after a try of init, or of a join that adds no member to etcd.
pub(super) fn cleanup() -> String {
    format!("export PATH={BIN}:$PATH\n{CLEANUP}")
}

/// Cleans up after a try to join with a member of the stacked etcd; `first` has another.
pub(super) fn cleanup_member(first: &HostSpec, host: &HostSpec) -> String {
    let peer = SocketAddr::new(host.internal_address, 2380);
    let name = &first.name;
    format!("export PATH={BIN}:$PATH first={name} peer=https://{peer}\n{LEAVE_ETCD}{CLEANUP}")
}

/// How a reset takes back what kubeadm did.
pub(super) fn undo() -> Undo {
    let title = "Reset kubeadm, pods and rules".to_owned();
    Undo::Script {
        title,
        script: RESET.to_owned(),
        arguments: Vec::new(),
    }
}
