//! Inputs of a plan without hosts: assumed facts, and placeholders for secrets.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use super::{
    CLibrary, Certificates, EtcdCertificates, GivenAuthorities, HostFacts, Inputs, registry,
};
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::Cluster;
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_pki::registry_login::RegistryLogin;
use kubexm_pki::secret_keys::EncryptionKeys;
use kubexm_pki::{Leaf, Pair};
use kubexm_types::Arch;

impl<'a> Inputs<'a> {
    /// Returns inputs without facts of hosts. It issues no certificates.
    pub fn assumed(cluster: &'a Cluster, lock: &'a Lock, blobs: Arc<dyn Blobs>) -> Self {
        let first = lock.architectures.first().copied();
        let hosts = cluster.hosts.iter().filter_map(|host| {
            let facts = HostFacts::assumed(host.arch.or(first)?);
            Some((host.name.clone(), facts))
        });
        Self {
            cluster,
            lock,
            blobs,
            hosts: hosts.collect(),
            absent: BTreeSet::new(),
            leaving: BTreeSet::new(),
            certificates: Certificates::placeholder(cluster),
        }
    }
}

impl HostFacts {
    /// Returns the facts of a typical new host.
    pub fn assumed(arch: Arch) -> Self {
        Self {
            arch,
            releases: Vec::new(),
            c_library: CLibrary::Unknown,
            has_name_server: true,
            is_node: false,
            is_initialized: false,
            has_cluster_files: false,
            etcd_formed: false,
            pods_ended: false,
            registry_login: None,
            registry_sources: BTreeSet::new(),
            has_network_manager: false,
            has_networkd: false,
        }
    }
}

impl Certificates {
    /// Returns placeholders for certificates and keys.
    pub fn placeholder(cluster: &Cluster) -> Self {
        let pair = Pair {
            certificate: "<certificate>\n".to_owned(),
            key: "<key>\n".to_owned(),
        };
        let issue = |_: &str, _: &Leaf| Ok::<_, Infallible>(pair.clone());
        let Ok(etcd) = EtcdCertificates::issue(cluster, "<etcd's CA>\n", issue);
        Self {
            ca: "<kubexm's CA>\n".to_owned(),
            registry: pair,
            registry_login: registry::has_login(cluster).then(RegistryLogin::placeholder),
            etcd,
            kubernetes: ClusterPki::placeholder(cluster),
            encryption: cluster
                .security
                .encryption
                .map(|encryption| Arc::new(EncryptionKeys::placeholder(encryption))),
            authorities: GivenAuthorities::of_site(cluster, || Ok(Vec::new())).map(Arc::new),
        }
    }
}
