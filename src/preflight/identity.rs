//! Checks that every host belongs to the cluster of the state directory, or to none: by the record on the host,
//! and by the certificates of its authorities.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use kubexm_config::cluster::{Cluster, Etcd, KubernetesKind};
use kubexm_host::Facts;
use kubexm_host::facts::Membership;
use kubexm_types::{Authority, ClusterIdentity, Digest, FindingKind, HostName};

/// What the controller knows about the cluster.
#[derive(Debug, Clone, Default)]
pub struct Controller {
    /// The cluster of the state directory; `None` if it has no record of a cluster.
    pub identity: Option<ClusterIdentity>,
    /// The state directory, for messages.
    pub state: String,
    /// The authorities that the controller knows. An authority of kubeadm is unknown until the first control
    /// plane has it.
    pub authorities: BTreeMap<Authority, Expected>,
    /// The other authorities of a rotation that has begun.
    pub rotation: BTreeSet<Digest>,
    /// The authorities whose rotation is about to end: the controller has forgotten the other one, which hosts can still have.
    pub ending: BTreeSet<Authority>,
    /// The hosts on which runs with this state directory began to work.
    pub began_on: BTreeSet<HostName>,
    /// Whether the controller has the authorities of kubeadm from a backup, so that `kubeadm init` creates none.
    pub has_authorities: bool,
    /// Whether the user states that hosts of an earlier version belong to the cluster.
    pub accept_earlier: bool,
}

impl Controller {
    /// Returns whether a host has this authority, and no other one than a rotation has. Programs on the host trust each of them.
    fn is_own(&self, authority: Authority, expected: &Expected, found: &[Digest]) -> bool {
        let is_known =
            |one: &Digest| expected.fingerprint == Some(*one) || self.rotation.contains(one);
        let has_own = expected.fingerprint.is_some_and(|own| found.contains(&own));
        has_own && (self.ending.contains(&authority) || found.iter().all(is_known))
    }
}

/// An authority of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The fingerprint; `None` if kubexm has not created the authority yet.
    pub fingerprint: Option<Digest>,
    /// The file on the controller that contains the certificate, or should.
    pub source: String,
}

/// What to do with the record of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The host carries the ID of this cluster.
    Recorded,
    /// An earlier version of kubexm installed the host for this cluster: it has a receipt and no ID.
    Earlier,
    /// kubexm has not changed the host.
    Untouched,
}

const OTHER_STATE: &str = "pass the state directory of that cluster with --state, or correct the address of the host \
                           in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is \
                           lost, frees the host";
const KEEP_CA: &str = "pass the state directory of this cluster with --state, or restore it from a backup: only \
                       kubexm certs rotate-ca and rotate-sa-key replace an authority";

/// Returns what each host is to the cluster, or why it does not belong to it.
///
/// # Errors
/// Returns a finding for each host that belongs to another cluster, or may belong to one.
pub fn origins(
    cluster: &Cluster,
    controller: &Controller,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<BTreeMap<HostName, Origin>, Vec<Finding>> {
    let mut origins = BTreeMap::new();
    let mut findings = Vec::new();
    for (name, facts) in facts {
        match origin(cluster, controller, name, facts) {
            Ok(origin) => drop(origins.insert(name.clone(), origin)),
            Err((what, hint)) => {
                findings.push(Finding::new(FindingKind::Cluster, name, true, what, hint))
            }
        }
    }
    if findings.is_empty() {
        Ok(origins)
    } else {
        Err(findings)
    }
}

fn origin(
    cluster: &Cluster,
    controller: &Controller,
    name: &HostName,
    facts: &Facts,
) -> Result<Origin, (String, &'static str)> {
    match &facts.cluster {
        Membership::Cluster(theirs) => match &controller.identity {
            Some(ours) if ours.id == theirs.id => Ok(Origin::Recorded),
            ours => {
                let state = &controller.state;
                let ours = match ours {
                    Some(ours) => format!("is of {ours}"),
                    None => "has no record of a cluster".to_owned(),
                };
                let created = &theirs.created;
                let what = format!(
                    "belongs to {theirs}, created {created}; the state directory {state} {ours}"
                );
                Err((what, OTHER_STATE))
            }
        },
        Membership::Damaged => Err((
            "its record /var/lib/kubexm/cluster is damaged".to_owned(),
            "if the host belongs to this cluster, remove the file: the next run compares the certificates",
        )),
        Membership::Unrecorded if !facts.receipt => Ok(Origin::Untouched),
        Membership::Unrecorded if controller.accept_earlier => Ok(Origin::Earlier),
        Membership::Unrecorded => earlier(cluster, controller, name, facts),
    }
}

/// Decides whether a host belongs to the cluster by its certificates: an earlier version of kubexm wrote no ID.
fn earlier(
    cluster: &Cluster,
    controller: &Controller,
    name: &HostName,
    facts: &Facts,
) -> Result<Origin, (String, &'static str)> {
    let found = authorities(cluster, facts);
    let mut is_proved = false;
    for (path, authority, fingerprints) in &found {
        let Some(expected) = controller.authorities.get(authority) else {
            continue;
        };
        if !controller.is_own(*authority, expected, fingerprints) {
            let what = mismatch(controller, path, *authority, fingerprints, expected);
            return Err((what, KEEP_CA));
        }
        is_proved = true;
    }
    let state = &controller.state;
    match is_proved {
        true => Ok(Origin::Earlier),
        false
            if found.is_empty() && !facts.is_node() && !facts.etcd_formed && !facts.kubernetes =>
        {
            // A first install that was interrupted before it wrote a certificate.
            if controller.began_on.contains(name) {
                Ok(Origin::Earlier)
            } else {
                Err((
                    format!(
                        "an earlier version of kubexm began an install on it, and the journal in {state} does \
                     not have it"
                    ),
                    "pass the state directory of that install with --state; `kubexm reset --cluster-id none` frees the \
                 host if it is lost",
                ))
            }
        }
        false => Err((
            format!(
                "an earlier version of kubexm installed it, and no certificate on it proves that it belongs to \
                 the cluster of {state}"
            ),
            "pass the state directory of its cluster with --state; `kubexm reset --cluster-id none` frees the host if it \
             is lost",
        )),
    }
}

/// Compares the authorities on all hosts with those of the controller and with each other.
pub fn check(
    cluster: &Cluster,
    controller: &Controller,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: BTreeMap<Authority, (&HostName, Vec<Digest>)> = BTreeMap::new();
    for (name, facts) in facts {
        for (path, authority, fingerprints) in authorities(cluster, facts) {
            if let Some(expected) = controller.authorities.get(&authority) {
                if !controller.is_own(authority, expected, fingerprints) {
                    let what = mismatch(controller, path, authority, fingerprints, expected);
                    findings.push(Finding::new(
                        FindingKind::Cluster,
                        name,
                        true,
                        what,
                        KEEP_CA,
                    ));
                }
                continue;
            }
            // The certificates of a `kubeadm init` that was interrupted are replaced when it runs again.
            if !facts.is_node() {
                continue;
            }
            match first.get(&authority) {
                None => drop(first.insert(authority, (name, fingerprints.to_vec()))),
                Some((_, known)) if known.iter().any(|one| fingerprints.contains(one)) => {}
                Some((other, known)) => findings.push(Finding::new(
                    FindingKind::Cluster,
                    name,
                    true,
                    format!(
                        "{path} has the {authority} {}, but {other} has {}",
                        shown(fingerprints),
                        shown(known)
                    ),
                    "correct the addresses of the hosts in the cluster file: they belong to two clusters",
                )),
            }
        }
    }
    findings.extend(second_init(cluster, controller, facts));
    findings
}

/// Returns the authorities that kubeadm created, by their files on control planes. Root on a worker does not choose them.
pub fn of_kubeadm(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
) -> BTreeMap<Authority, Digest> {
    let nodes = facts
        .iter()
        .filter(|(name, facts)| facts.is_node() && cluster.is_control_plane(name));
    let found = nodes.flat_map(|(_, facts)| authorities(cluster, facts));
    let of_kubeadm = found.filter(|(_, authority, _)| !kept(cluster).contains(authority));
    of_kubeadm
        .filter_map(|(_, authority, fingerprints)| Some((authority, *fingerprints.first()?)))
        .collect()
}

/// Returns the authorities that kubexm creates, and keeps in the state directory.
pub fn kept(cluster: &Cluster) -> BTreeSet<Authority> {
    let mut kept = BTreeSet::from([Authority::Registry]);
    if matches!(cluster.etcd, Etcd::Systemd { .. }) {
        kept.insert(Authority::Etcd);
    }
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        kept.extend([
            Authority::Kubernetes,
            Authority::FrontProxy,
            Authority::ServiceAccounts,
        ]);
    }
    kept
}

/// Finds a first control plane on which kubeadm would create a second cluster, with new authorities.
fn second_init(
    cluster: &Cluster,
    controller: &Controller,
    facts: &BTreeMap<HostName, Facts>,
) -> Option<Finding> {
    if cluster.kubernetes.kind != KubernetesKind::Kubeadm {
        return None;
    }
    let first = cluster.roles.control_plane.first()?;
    // A control plane that exists takes the place of the first one, which then joins.
    let mut control_planes = cluster.roles.control_plane.iter();
    if control_planes.any(|name| facts.get(name).is_some_and(Facts::is_node)) {
        return None;
    }
    facts.get(first)?;
    let known = controller.authorities.get(&Authority::Kubernetes);
    let known = known.and_then(|expected| expected.fingerprint);
    let mut others = facts.iter().filter(|(name, _)| *name != first);
    let other = others.find(|(_, facts)| facts.is_node());
    let cause = match (known, other) {
        (_, Some((other, _))) => format!("{other} is a node of this cluster already"),
        (Some(_), None) if controller.has_authorities => return None,
        (Some(known), None) => format!("the cluster has the Kubernetes CA {known}"),
        (None, None) => return None,
    };
    Some(Finding::new(
        FindingKind::Cluster,
        first,
        true,
        format!(
            "is the first control plane, and kubeadm would create a second cluster on it: {cause}"
        ),
        "restore the host from a backup; for a new cluster, run `kubexm reset` for all hosts of the old one, and \
         then pass another directory with --state",
    ))
}

/// Returns path, authority and fingerprints of each authority on a host, without those of services outside the
/// cluster.
fn authorities<'a>(cluster: &Cluster, facts: &'a Facts) -> Vec<(&'a str, Authority, &'a [Digest])> {
    let authority = |path: &str| match path {
        "/etc/kubernetes/pki/ca.crt" => Some(Authority::Kubernetes),
        "/etc/kubernetes/pki/front-proxy-ca.crt" => Some(Authority::FrontProxy),
        "/etc/kubernetes/pki/sa.pub" => Some(Authority::ServiceAccounts),
        "/etc/kubernetes/pki/etcd/ca.crt" if matches!(cluster.etcd, Etcd::Kubeadm { .. }) => {
            Some(Authority::Etcd)
        }
        "/etc/kubexm/etcd/ca.crt" if matches!(cluster.etcd, Etcd::Systemd { .. }) => {
            Some(Authority::Etcd)
        }
        "/etc/kubexm/registry-ca.crt" if cluster.registry.external.is_none() => {
            Some(Authority::Registry)
        }
        _ => None,
    };
    let found = facts.authorities.iter();
    found
        .filter_map(|(path, digests)| Some((path.as_str(), authority(path)?, digests.as_slice())))
        .collect()
}

fn mismatch(
    controller: &Controller,
    path: &str,
    authority: Authority,
    found: &[Digest],
    expected: &Expected,
) -> String {
    let others = found
        .iter()
        .filter(|one| expected.fingerprint != Some(**one) && !controller.rotation.contains(one));
    let others: Vec<Digest> = others.copied().collect();
    let has_own = others.len() < found.len();
    let (found, source, state) = (shown(found), &expected.source, &controller.state);
    match expected.fingerprint {
        Some(_) if has_own => format!(
            "{path} also has the {authority} {}, which the state directory {state} does not record",
            shown(&others)
        ),
        Some(known) => format!(
            "{path} has the {authority} {found}, but the state directory {state} has {known} ({source})"
        ),
        None => format!(
            "{path} has the {authority} {found}, but the state directory {state} has none ({source} does not exist)"
        ),
    }
}

fn shown(fingerprints: &[Digest]) -> String {
    match fingerprints {
        [] => "that is not a certificate".to_owned(),
        [one] => one.to_string(),
        [first, ..] => format!("{first} and others"),
    }
}

#[cfg(test)]
mod tests;
