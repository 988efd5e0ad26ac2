//! What a plan is computed from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::preflight;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_deploy::{Certificates, Inputs};
use kubexm_host::Facts;
use kubexm_types::HostName;

/// Returns what a plan is computed from, with placeholders instead of certificates.
pub(crate) fn without_certificates<'a>(
    cluster: &'a Cluster,
    bundle: &'a Arc<BundleSet>,
    facts: &BTreeMap<HostName, Facts>,
) -> Inputs<'a> {
    let mut inputs = Inputs::assumed(cluster, bundle.lock(), Arc::clone(bundle) as _);
    for (name, facts) in facts {
        if let Some(host) = inputs.hosts.get_mut(name) {
            *host = preflight::host_facts(facts.arch().unwrap_or(host.arch), facts);
        }
    }
    inputs
}

/// Returns everything that the plan is computed from.
pub(crate) fn with_certificates<'a>(
    cluster: &'a Cluster,
    bundle: &'a Arc<BundleSet>,
    facts: &BTreeMap<HostName, Facts>,
    certificates: Certificates,
) -> Inputs<'a> {
    let hosts = facts.iter().filter_map(|(name, facts)| {
        let host = preflight::host_facts(facts.arch()?, facts);
        Some((name.clone(), host))
    });
    Inputs {
        cluster,
        lock: bundle.lock(),
        blobs: Arc::clone(bundle) as _,
        hosts: hosts.collect(),
        absent: BTreeSet::new(),
        leaving: BTreeSet::new(),
        certificates,
    }
}
