//! What kubeadm did, taken back.

use std::net::SocketAddr;

use crate::kubernetes::undo::TRACES;
use crate::{BIN, Inputs, runtime};
use kubexm_config::cluster::{Etcd, HostSpec};
use kubexm_engine::steps::Undo;

/// Takes back what kubeadm knows of; what it leaves comes after it. Its argument is the runtime's
/// socket.
const RESET: &str = r#"
export PATH=/usr/local/bin:$PATH
systemctl stop kubelet 2>/dev/null || :
if command -v kubeadm >/dev/null; then
  # All control planes are reset at once: asking the others for the configuration, or to strike this
  # one off etcd's members, would only wait for those that are gone already.
  rm -f /etc/kubernetes/admin.conf
  kubeadm reset -f --skip-phases=remove-etcd-member \
    --cri-socket "$1" >/dev/null 2>&1 || :
fi
"#;

/// Takes back what a try of init or join left that did not come through; `$socket` is the runtime's.
const CLEANUP: &str = r#"
rm -f /etc/kubernetes/admin.conf
kubeadm reset -f --skip-phases=remove-etcd-member \
  --cri-socket "$socket" >/dev/null || :
"#;
/// An etcd that kubexm runs may keep its data in the same place: this is for kubeadm's own.
const REMOVE_DATA: &str = "rm -rf /var/lib/etcd/member\n";

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

/// Cleans up after a try that adds no member to etcd.
pub(super) fn cleanup(inputs: &Inputs<'_>) -> String {
    let socket = socket(inputs);
    format!("export PATH={BIN}:$PATH socket={socket}\n{CLEANUP}")
}

/// Cleans up after a try of init.
pub(super) fn cleanup_init(inputs: &Inputs<'_>) -> String {
    match inputs.cluster.etcd {
        Etcd::Kubeadm { .. } => format!("{}{REMOVE_DATA}", cleanup(inputs)),
        Etcd::Kubexm { .. } | Etcd::External { .. } => cleanup(inputs),
    }
}

/// Cleans up after a try to join with a member of the stacked etcd; `first` has another.
pub(super) fn cleanup_member(inputs: &Inputs<'_>, first: &HostSpec, host: &HostSpec) -> String {
    let peer = SocketAddr::new(host.internal_address, 2380);
    let (name, socket) = (&first.name, socket(inputs));
    format!(
        "export PATH={BIN}:$PATH socket={socket} first={name} peer=https://{peer}\n{LEAVE_ETCD}{CLEANUP}{REMOVE_DATA}"
    )
}

/// How a reset takes back what kubeadm did.
pub(super) fn undo(inputs: &Inputs<'_>) -> Undo {
    let title = "Reset kubeadm, pods and rules".to_owned();
    Undo::Script {
        title,
        script: format!("{RESET}{TRACES}rm -f /var/lib/kubexm/done/kubeadm-*\n"),
        arguments: vec![socket(inputs).to_owned()],
    }
}

fn socket(inputs: &Inputs<'_>) -> &'static str {
    runtime::of_cluster(inputs).socket()
}
