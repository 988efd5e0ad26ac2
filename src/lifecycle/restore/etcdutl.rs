//! The program etcdutl, which creates the new data of etcd on the members as root. It comes from the bundle: that of a backup is of a
//! host, and root there can have changed it.

use std::collections::BTreeMap;

use crate::etcdutl::BundledEtcdutl;
use kubexm_config::Cluster;
use kubexm_config::cluster::HostSpec;
use kubexm_etcd::members;
use kubexm_host::Facts;
use kubexm_session::CommandError;
use kubexm_types::{Arch, HostName};

/// Returns the program for each member.
///
/// # Errors
/// The bundle does not have it for the architecture of a host.
pub(super) fn of_members<'a>(
    of_bundle: &BTreeMap<Arch, BundledEtcdutl>,
    cluster: &'a Cluster,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<Vec<(&'a HostSpec, BundledEtcdutl)>, CommandError> {
    let members = members(cluster).into_iter().map(|host| {
        let arch = facts.get(&host.name).and_then(Facts::arch);
        let program = arch.and_then(|arch| of_bundle.get(&arch));
        let program = program.ok_or_else(|| {
            CommandError::refused(format!(
                "{}: the bundle has no etcdutl for the architecture of this host",
                host.name
            ))
            .hint("pass the bundle of the cluster with --bundle")
        })?;
        Ok((host, program.clone()))
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_session::example::cluster_of_four;

    /// The program of a backup, which one member had provided, ran as root on all members.
    #[test]
    fn only_the_bundle_provides_a_program() {
        let machine = "x86_64".to_owned();
        let facts = Facts {
            machine,
            ..Facts::default()
        };
        let facts = [("node1".parse().unwrap(), facts)].into();
        let cluster = cluster_of_four();
        let found = of_members(&BTreeMap::new(), &cluster, &facts);
        let refused = found.err().unwrap().to_string();
        assert_eq!(
            refused,
            "node1: the bundle has no etcdutl for the architecture of this host\nhint: pass the bundle of the cluster with --bundle"
        );
    }
}
