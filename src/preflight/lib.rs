//! Checks before an install: everything that would make it fail later, before any host is changed.

#[cfg(test)]
mod authority;
mod checker;
mod disk_space;
pub mod etcd_client;
mod exchange;
pub mod external_checks;
mod finding;
mod firewall;
pub mod host_checks;
pub mod identity;
mod immutable;
mod leftovers;
mod machine;
mod names;
mod network;
mod paths;
mod pods;
mod probe;
pub mod registry_checks;
mod registry_client;
mod system;

use std::collections::BTreeMap;

use checker::Checker;
pub use checker::{Carried, Offer};
pub use disk_space::ALMOST_FULL;
pub use finding::Finding;
pub use immutable::check as immutable_settings;
pub use immutable::check_upgrade as immutable_settings_in_upgrade;
pub use paths::paths;

use kubexm_config::cluster::Cluster;
use kubexm_host::facts::Facts;
use kubexm_types::HostName;

/// Returns the findings of all hosts, in the order of their names, without those of [`immutable_settings`].
pub fn check(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>, offer: &Offer) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, facts) in facts {
        let mut checker = Checker {
            cluster,
            name,
            facts,
            offer,
            findings: &mut findings,
        };
        checker.machine();
        checker.disk_pressure();
        checker.system();
        checker.network();
        checker.names();
        checker.pods();
        checker.leftovers();
    }
    machine::duplicates(facts, &mut findings);
    findings.sort();
    findings
}

#[cfg(test)]
mod tests;
