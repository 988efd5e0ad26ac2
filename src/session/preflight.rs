//! Runs all preflight checks, and selects the facts that a plan depends on.

use std::collections::{BTreeMap, BTreeSet};

use crate::session::Hosts;
use crate::{CommandError, data_directories, expiry};
use kubexm_bundle::{BundleSet, Lock};
use kubexm_config::Cluster;
use kubexm_deploy::{CLibrary, HostFacts};
use kubexm_engine::seed;
use kubexm_host::Facts;
use kubexm_preflight::{Carried, Finding, Offer, external_checks, host_checks, registry_checks};
use kubexm_types::event::{Event, Events};
use kubexm_types::{Arch, HostName};

/// Checks all hosts, and the services outside the cluster that it uses.
pub async fn check(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
    bundle: &BundleSet,
) -> Vec<Finding> {
    let mut findings = hosts_and_services(cluster, hosts, facts, bundle).await;
    findings.extend(of_existing(cluster, facts));
    sort(&mut findings, cluster);
    findings
}

/// Checks all hosts, and the services outside the cluster that it uses, before an upgrade.
pub async fn check_upgrade(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
    bundle: &BundleSet,
) -> Vec<Finding> {
    let mut findings = hosts_and_services(cluster, hosts, facts, bundle).await;
    findings.extend(kubexm_preflight::immutable_settings_in_upgrade(
        cluster, facts,
    ));
    findings.extend(expiry::findings_before_upgrade(cluster, facts));
    findings.extend(data_directories::findings(cluster, facts));
    sort(&mut findings, cluster);
    findings
}

async fn hosts_and_services(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
    bundle: &BundleSet,
) -> Vec<Finding> {
    let lock = bundle.lock();
    let mut findings = kubexm_preflight::check(cluster, facts, &offer(cluster, facts, lock));
    findings.extend(host_checks::check(cluster, hosts, facts).await);
    let kubeadm = lock.kubeadm(&cluster.kubernetes.version);
    let minimum = kubeadm.and_then(|facts| facts.minimum_etcd.as_ref());
    findings.extend(external_checks::check(cluster, hosts, facts, minimum).await);
    let images = lock.images.iter().map(|image| &image.name);
    let images: Vec<_> = images
        .map(|name| (name.clone(), seed::repository(name)))
        .collect();
    findings.extend(registry_checks::check(cluster, hosts, &images).await);
    findings
}

/// Returns the findings about what hosts of an existing cluster have: settings that an install cannot change, certificates, and
/// file systems that are not mounted.
pub fn of_existing(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
    let mut findings = kubexm_preflight::immutable_settings(cluster, facts);
    findings.extend(expiry::findings(cluster, facts));
    findings.extend(data_directories::findings(cluster, facts));
    findings
}

/// Sorts findings by the order of hosts in the cluster file. Errors of a host come before its warnings.
fn sort(findings: &mut [Finding], cluster: &Cluster) {
    let position = |finding: &Finding| {
        let mut hosts = cluster.hosts.iter();
        hosts.position(|host| host.name == finding.host)
    };
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (position(finding), !finding.fatal);
        key(a).cmp(&key(b)).then_with(|| a.what.cmp(&b.what))
    });
}

/// Reports all findings as events.
///
/// # Errors
/// At least one finding prevents an install; the error lists them all.
pub fn report(findings: &[Finding], events: &Events) -> Result<(), CommandError> {
    for finding in findings {
        events.emit(Event::Finding {
            host: finding.host.clone(),
            kind: finding.kind,
            fatal: finding.fatal,
            what: finding.what.clone(),
            hint: finding.hint.clone(),
        });
    }
    let fatal: Vec<Finding> = findings.iter().filter(|f| f.fatal).cloned().collect();
    if fatal.is_empty() {
        Ok(())
    } else {
        Err(CommandError::NotReady(fatal))
    }
}

/// What the bundle contains, as far as preflight compares it with the hosts.
fn offer(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>, lock: &Lock) -> Offer {
    let of_arches = |arches: &BTreeSet<Arch>| carried(&lock.only(arches));
    let present = facts.values().filter_map(Facts::arch).collect();
    let arches = lock.architectures.iter();
    Offer {
        carried: arches
            .map(|arch| (*arch, of_arches(&BTreeSet::from([*arch]))))
            .collect(),
        registry_kib: of_arches(&present).images_kib,
        releases: lock
            .packages
            .iter()
            .map(|set| (set.distribution.clone(), set.release.clone()))
            .collect(),
        runtime_dir: cluster.runtime.data_directory().to_owned(),
    }
}

/// The sizes of the files and images that a lock names.
fn carried(lock: &Lock) -> Carried {
    let files: u64 = lock
        .files
        .iter()
        .map(|file| file.size)
        .fold(0, u64::saturating_add);
    let content = kubexm_bundle::lock::blob_index::content_size(lock.blobs());
    Carried {
        images_kib: content.saturating_sub(files) / 1024,
        files_kib: files / 1024,
    }
}

/// Returns the facts of a host that a plan depends on.
pub fn host_facts(arch: Arch, facts: &Facts) -> HostFacts {
    HostFacts {
        arch,
        releases: facts.releases(),
        c_library: facts.glibc.map_or(CLibrary::Other, CLibrary::Glibc),
        has_name_server: facts.nameserver.is_some(),
        is_node: facts.is_node(),
        is_initialized: facts.initialized,
        has_cluster_files: facts.cluster_files,
        etcd_formed: facts.etcd_formed,
        pods_ended: facts.pods_ended,
        registry_login: facts.registry_login,
        registry_sources: facts
            .registry_sources
            .iter()
            .filter_map(|directory| seed::source(directory))
            .collect(),
        has_network_manager: facts.network_manager,
        has_networkd: facts.networkd,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn findings_follow_the_order_of_the_cluster_file() {
        let roles = "control-plane: [node2], worker: [node1]";
        let cluster = kubexm_config::example::cluster_of(roles, "", "");
        let finding = |host: &str, fatal: bool, what: &str| {
            Finding::new(
                kubexm_types::FindingKind::Swap,
                &host.parse().unwrap(),
                fatal,
                what.to_owned(),
                "",
            )
        };
        let mut findings = vec![
            finding("node1", true, "c"),
            finding("node2", false, "a"),
            finding("node2", true, "d"),
            finding("node2", true, "b"),
        ];
        sort(&mut findings, &cluster);
        let order: Vec<&str> = findings.iter().map(|found| found.what.as_str()).collect();
        assert_eq!(order, ["b", "d", "a", "c"]);
    }
}
