//! Clusters that nobody has looked at yet: what is not known is taken for what it most likely is, and
//! secrets are words.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Certificates, EtcdCertificates, Inputs, Machine};
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::Cluster;
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_pki::{Leaf, Pair};
use kubexm_types::Arch;

impl<'a> Inputs<'a> {
    /// Inputs for a look without hosts: nothing is made, certificates are words.
    pub fn unseen(cluster: &'a Cluster, lock: &'a Lock, blobs: Arc<dyn Blobs>) -> Self {
        let first = lock.architectures.first().copied();
        let machines = cluster.hosts.iter().filter_map(|host| {
            let machine = Machine::unseen(host.arch.or(first)?);
            Some((host.name.clone(), machine))
        });
        Self {
            cluster,
            lock,
            blobs,
            machines: machines.collect(),
            certificates: Certificates::words(cluster),
        }
    }
}

impl Machine {
    /// A machine that nobody has looked at.
    pub fn unseen(arch: Arch) -> Self {
        Self {
            arch,
            releases: Vec::new(),
            has_name_server: true,
            is_node: false,
            etcd_formed: false,
            has_network_manager: false,
        }
    }
}

impl Certificates {
    /// Words in place of certificates and keys.
    pub fn words(cluster: &Cluster) -> Self {
        let pair = Pair {
            certificate: "<certificate>\n".to_owned(),
            key: "<key>\n".to_owned(),
        };
        let word = |_: &str, _: &Leaf| Ok::<_, Infallible>(pair.clone());
        let Ok(etcd) = EtcdCertificates::make(cluster, "<etcd's CA>\n", word);
        Self {
            ca: "<kubexm's CA>\n".to_owned(),
            registry: pair,
            etcd,
            kubernetes: ClusterPki::words(cluster),
        }
    }
}
