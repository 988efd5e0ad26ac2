//! What a phase of a rotation depends on. The modules of the programs that read an authority add their steps from it.

use std::collections::BTreeMap;

use crate::{Certificates, HostFacts};
use kubexm_config::cluster::{Cluster, Etcd, KubernetesKind};
use kubexm_engine::steps::RunScript;
use kubexm_types::{Authority, HostName};

/// The CA with which the controller manager signs while `ca.crt` has two: it refuses a file with two certificates.
pub(crate) const SIGNER: &str = "/etc/kubernetes/pki/signing-ca.crt";

/// A phase of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationPhase {
    /// Every program trusts the present and the next authority.
    Trust,
    /// The new authority signs, and every program gets credentials of it.
    Switch,
    /// No program trusts the former authority any more.
    Remove,
    /// No program trusts the next authority any more, which has not signed anything.
    Cancel,
}

/// An authority in a phase.
pub struct RotatedAuthority {
    /// The certificates or public keys that programs trust, PEM.
    pub trusted: String,
    /// The certificate or public key of the authority that signs, PEM.
    pub present: String,
    /// Its key, if it is a new one of kubeadm. Secret.
    pub key: Option<String>,
}

/// What a phase depends on.
pub struct RotationInputs<'a> {
    pub cluster: &'a Cluster,
    pub hosts: BTreeMap<HostName, HostFacts>,
    pub certificates: Certificates,
    pub phase: RotationPhase,
    /// Identifies the rotation. What a host did once in it is not repeated.
    pub id: &'a str,
    /// The authorities that are replaced.
    pub authorities: &'a BTreeMap<Authority, RotatedAuthority>,
    /// Whether the controller has a kubeconfig of the group `system:masters`.
    pub has_super_admin: bool,
}

impl RotationInputs<'_> {
    /// Returns the CAs of Kubernetes that programs trust; `None` if this CA stays.
    pub(crate) fn trusted_cas(&self) -> Option<&str> {
        let found = self.authorities.get(&Authority::Kubernetes);
        found.map(|authority| authority.trusted.as_str())
    }

    /// Returns whether kubeadm issues certificates again in this phase.
    pub(crate) fn issues(&self) -> bool {
        let mut rotated = self.authorities.keys();
        self.phase == RotationPhase::Switch
            && rotated.any(|authority| {
                *authority != Authority::ServiceAccounts && self.is_of_kubeadm(*authority)
            })
    }

    /// Returns whether an authority of the cluster is one that kubeadm created.
    pub(crate) fn is_of_kubeadm(&self, authority: Authority) -> bool {
        match authority {
            Authority::Kubernetes | Authority::FrontProxy | Authority::ServiceAccounts => {
                self.cluster.kubernetes.kind == KubernetesKind::Kubeadm
            }
            Authority::Etcd => matches!(self.cluster.etcd, Etcd::Kubeadm { .. }),
            Authority::Registry => false,
        }
    }

    /// Returns whether the CA of the registry that kubexm runs is replaced.
    pub(crate) fn replaces_ca_of_registry(&self) -> bool {
        self.cluster.registry.external.is_none()
            && self.authorities.contains_key(&Authority::Registry)
    }

    /// Returns whether the CA of an etcd that kubexm runs is replaced.
    pub(crate) fn replaces_ca_of_members(&self) -> bool {
        matches!(self.cluster.etcd, Etcd::Systemd { .. })
            && self.authorities.contains_key(&Authority::Etcd)
    }
}

/// Returns the step that removes [`SIGNER`].
pub(crate) fn without_signer_file() -> RunScript {
    RunScript::new(
        "rotation signer file",
        format!("Remove {SIGNER}"),
        "[ ! -e \"$1\" ] || { echo 'exists'; exit 1; }",
        "rm -f \"$1\"",
    )
    .arguments([SIGNER])
}
