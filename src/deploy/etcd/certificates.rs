//! Who is who for an etcd that kubexm runs. Keys are made on this machine; the CA's never leaves it.

use std::collections::BTreeMap;

use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_pki::{Leaf, Pair, Usage};
use kubexm_types::HostName;

/// Certificates of an etcd that kubexm runs, all of a CA that signs nothing else.
#[derive(Clone)]
pub struct EtcdCertificates {
    /// The CA, PEM.
    pub ca: String,
    /// The API servers' client certificate.
    pub client: Pair,
    /// The members', by host.
    pub members: BTreeMap<HostName, MemberCertificates>,
}

/// Certificates of one member.
#[derive(Clone)]
pub struct MemberCertificates {
    /// By which it is known to clients and to the other members.
    pub member: Pair,
    /// For etcdctl on its host.
    pub admin: Pair,
}

impl EtcdCertificates {
    /// Has every certificate that the cluster's etcd needs made by `issue`, which gets a name for
    /// it and whom it is for. `None` where kubexm runs no etcd.
    ///
    /// # Errors
    /// Those of `issue`.
    pub fn make<E>(
        cluster: &Cluster,
        ca: &str,
        mut issue: impl FnMut(&str, &Leaf) -> Result<Pair, E>,
    ) -> Result<Option<Self>, E> {
        if !matches!(cluster.etcd, Etcd::Systemd { .. }) {
            return Ok(None);
        }
        let client = issue("etcd-client", &user("kube-apiserver-etcd-client"))?;
        let mut members = BTreeMap::new();
        for host in cluster.etcd_hosts() {
            let name = &host.name;
            let certificates = MemberCertificates {
                member: issue(&format!("etcd-member-{name}"), &member(host))?,
                // The user that etcd's own access control, where somebody turns it on, never refuses.
                admin: issue(&format!("etcd-admin-{name}"), &user("root"))?,
            };
            members.insert(name.clone(), certificates);
        }
        let ca = ca.to_owned();
        Ok(Some(Self {
            ca,
            client,
            members,
        }))
    }
}

fn user(common_name: &str) -> Leaf {
    Leaf {
        common_name: common_name.to_owned(),
        organization: None,
        names: Vec::new(),
        usage: Usage::Client,
    }
}

fn member(host: &HostSpec) -> Leaf {
    Leaf {
        common_name: format!("etcd-{}", host.name),
        organization: None,
        names: vec![
            host.name.to_string(),
            "localhost".to_owned(),
            host.internal_address.to_string(),
            "127.0.0.1".to_owned(),
        ],
        usage: Usage::Peer,
    }
}
