//! The versions through which an upgrade goes, by the version skew policy of Kubernetes
//! (<https://kubernetes.io/releases/version-skew-policy/>).

use std::collections::{BTreeMap, BTreeSet};

use crate::version_skew::{KUBELET_BEHIND, is_behind};
use kubexm_types::{HostName, Message, Version};

/// A version through which an upgrade goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The version of the control planes after the hop.
    pub version: Version,
    /// The workers that get the version, too. The others wait for a later hop.
    pub workers: BTreeSet<HostName>,
}

/// Why no path exists. The text is complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Message::from(self))]
pub enum NoPath {
    /// The cluster has a newer version.
    Downgrade {
        /// The newest version in the cluster.
        from: Version,
        /// The version of the cluster file.
        to: Version,
    },
    /// The major versions differ.
    Major {
        /// The version of the cluster.
        from: Version,
        /// The version of the cluster file.
        to: Version,
    },
    /// The bundle does not have each minor version in between.
    Missing {
        /// The version of the cluster.
        from: Version,
        /// The version of the cluster file.
        to: Version,
        /// The missing minor versions, as in `1.35`.
        minors: Vec<String>,
    },
    /// A node must first get a version that the bundle does not have.
    TooOld {
        /// The node.
        host: HostName,
        /// The version of its kubelet.
        kubelet: Version,
        /// The version of the first hop.
        next: Version,
        /// The newest version of an API server with the minor version of the cluster.
        from: Version,
    },
    /// A control plane is newer than a version on the way.
    Newer {
        /// The control plane.
        host: HostName,
        /// The version of its API server.
        found: Version,
        /// The version of the hop.
        hop: Version,
    },
}

impl From<&NoPath> for Message {
    fn from(error: &NoPath) -> Self {
        match error {
            NoPath::Downgrade { from, to } => Self::new(format!(
                "the cluster runs Kubernetes {from}, and the cluster file has {to}: Kubernetes does not support a downgrade"
            ))
            .hint(format!("set kubernetes.version to {from} or a newer version")),
            NoPath::Major { from, to } => Self::new(format!(
                "an upgrade from Kubernetes {from} to {to} is not supported: the major versions differ"
            )),
            NoPath::Missing { from, to, minors } => Self::new(format!(
                "an upgrade from Kubernetes {from} to {to} goes through each minor version, and the bundle has no {}",
                minors.join(" and no ")
            ))
            .hint("add a version of each to kubernetes.versions of the manifest, and build the bundle again"),
            NoPath::TooOld { host, kubelet, next, from } => Self::new(format!(
                "{host}: kubelet {kubelet} is too old for API servers of Kubernetes {next}, and the bundle has no Kubernetes \
                 {from} for it"
            ))
            .hint(format!("add {from} to kubernetes.versions of the manifest, and build the bundle again")),
            NoPath::Newer { host, found, hop } => Self::new(format!(
                "{host}: its API server has the version {found}, and the upgrade goes through the older version {hop}: \
                 Kubernetes does not support a downgrade"
            ))
            .hint(format!("add {found} to kubernetes.versions of the manifest, and build the bundle again")),
        }
    }
}

/// The versions with which the programs of a cluster run.
#[derive(Debug, Clone, Default)]
pub struct Running {
    /// The API servers.
    pub api_servers: BTreeMap<HostName, Version>,
    /// The kubelets.
    pub kubelets: BTreeMap<HostName, Version>,
}

impl Running {
    /// Returns whether everything has this version.
    pub fn is_at(&self, version: &Version) -> bool {
        let mut all = self.api_servers.values().chain(self.kubelets.values());
        all.all(|found| found == version)
    }

    /// Returns the oldest version of an API server.
    pub fn oldest(&self) -> Option<&Version> {
        self.api_servers.values().min()
    }
}

/// Returns the hops from what runs to a version: each minor version once, with its newest patch version in the bundle.
/// Workers get a new version in the last hop, and before their kubelets are too old for the API servers.
///
/// # Errors
/// The policy does not allow the upgrade, or the bundle does not have a version.
pub fn hops(running: &Running, to: &Version, bundle: &[Version]) -> Result<Vec<Hop>, Box<NoPath>> {
    let Some(from) = running.oldest() else {
        return Ok(Vec::new());
    };
    let mut all = running
        .api_servers
        .values()
        .chain(running.kubelets.values());
    if let Some(newer) = all.find(|version| *version > to) {
        return Err(Box::new(NoPath::Downgrade {
            from: newer.clone(),
            to: to.clone(),
        }));
    }
    if from.major() != to.major() {
        return Err(Box::new(NoPath::Major {
            from: from.clone(),
            to: to.clone(),
        }));
    }
    let mut versions = Vec::new();
    let mut minors = Vec::new();
    for minor in from.minor() + 1..to.minor() {
        match newest(bundle, to.major(), minor) {
            Some(version) => versions.push(version.clone()),
            None => minors.push(format!("{}.{minor}", to.major())),
        }
    }
    if !minors.is_empty() {
        return Err(Box::new(NoPath::Missing {
            from: from.clone(),
            to: to.clone(),
            minors,
        }));
    }
    versions.push(to.clone());
    if from != to
        && let Some(version) = repeated(running, from, &versions[0], bundle)?
    {
        versions.insert(0, version.clone());
    }
    for hop in &versions {
        let mut api_servers = running.api_servers.iter();
        if let Some((host, found)) = api_servers.find(|(_, found)| *found > hop) {
            return Err(Box::new(NoPath::Newer {
                host: host.clone(),
                found: found.clone(),
                hop: hop.clone(),
            }));
        }
    }
    Ok(with_workers(running, versions))
}

/// Returns the newest version of a minor version.
fn newest(bundle: &[Version], major: u64, minor: u64) -> Option<&Version> {
    let of_minor = |version: &&Version| version.major_minor() == (major, minor);
    bundle.iter().filter(of_minor).max()
}

/// Returns the version of the minor version of the oldest API server, if an interrupted hop to it must be completed before
/// the `next` one.
fn repeated<'a>(
    running: &Running,
    from: &Version,
    next: &Version,
    bundle: &'a [Version],
) -> Result<Option<&'a Version>, Box<NoPath>> {
    let has_begun_next = |version: &Version| version.major_minor() > from.major_minor();
    if from.major_minor() == next.major_minor() || running.api_servers.values().any(has_begun_next)
    {
        return Ok(None);
    }
    let of_minor = |version: &&Version| version.major_minor() == from.major_minor();
    let api_servers = running.api_servers.values();
    let at_least = api_servers.filter(of_minor).max().unwrap_or(from);
    let same = bundle.iter().find(|version| *version == at_least);
    let newer = newest(bundle, from.major(), from.minor()).filter(|newest| *newest > at_least);
    let present = same.or(newer);
    // Kubelets that are too old for the next version come from an interrupted hop, or have missed one.
    let is_too_old = |kubelet: &Version| is_behind(kubelet, next, KUBELET_BEHIND);
    let mut kubelets = running.kubelets.iter();
    if let Some((host, kubelet)) = kubelets.find(|(_, kubelet)| is_too_old(kubelet)) {
        return match present {
            Some(version) => Ok(Some(version)),
            None => Err(Box::new(NoPath::TooOld {
                host: host.clone(),
                kubelet: kubelet.clone(),
                next: next.clone(),
                from: at_least.clone(),
            })),
        };
    }
    // Control planes whose kubelets are older come from an interrupted hop to the version of the API servers.
    let has_older_kubelet = |name: &HostName| {
        let kubelet = running.kubelets.get(name);
        kubelet.is_some_and(|kubelet| kubelet < from)
    };
    let is_interrupted = running.api_servers.keys().any(has_older_kubelet);
    Ok(present.filter(|_| is_interrupted))
}

fn with_workers(running: &Running, versions: Vec<Version>) -> Vec<Hop> {
    let mut kubelets: BTreeMap<&HostName, &Version> = running
        .kubelets
        .iter()
        .filter(|(name, _)| !running.api_servers.contains_key(*name))
        .collect();
    let mut hops = Vec::new();
    for (place, version) in versions.iter().enumerate() {
        let next = versions.get(place + 1);
        let is_due = |kubelet: &Version| match next {
            None => true,
            Some(next) => is_behind(kubelet, next, KUBELET_BEHIND),
        };
        let workers: BTreeSet<HostName> = kubelets
            .iter()
            .filter(|(_, kubelet)| is_due(kubelet))
            .map(|(name, _)| (*name).clone())
            .collect();
        for (_, kubelet) in kubelets
            .iter_mut()
            .filter(|(name, _)| workers.contains(**name))
        {
            *kubelet = version;
        }
        hops.push(Hop {
            version: version.clone(),
            workers,
        });
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn running(api_servers: &[(&str, &str)], kubelets: &[(&str, &str)]) -> Running {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, text)| (name.parse().unwrap(), version(text)))
                .collect()
        };
        Running {
            api_servers: of(api_servers),
            kubelets: of(kubelets),
        }
    }

    /// Returns `VERSION: WORKERS` for each hop.
    fn texts(running: &Running, to: &str, bundle: &[&str]) -> Vec<String> {
        let bundle: Vec<Version> = bundle.iter().map(|text| version(text)).collect();
        let hops = hops(running, &version(to), &bundle).unwrap();
        let text = |hop: Hop| {
            let workers: Vec<&str> = hop.workers.iter().map(HostName::as_str).collect();
            format!("{}: {}", hop.version, workers.join(" "))
        };
        hops.into_iter().map(text).collect()
    }

    #[test]
    fn each_minor_version_is_a_hop_and_workers_change_once() {
        let running = running(&[("a", "1.34.4")], &[("a", "1.34.4"), ("b", "1.34.4")]);
        let bundle = ["1.35.1", "1.35.4", "1.36.3"];
        assert_eq!(
            texts(&running, "1.36.3", &bundle),
            ["1.35.4: ", "1.36.3: b"]
        );
        assert_eq!(texts(&running, "1.34.4", &bundle), ["1.34.4: b"]);
    }

    #[test]
    fn workers_change_before_they_are_too_old() {
        let running = running(
            &[("a", "1.33.0")],
            &[("a", "1.33.0"), ("b", "1.33.0"), ("c", "1.31.0")],
        );
        let bundle = ["1.34.4", "1.35.4", "1.36.3"];
        assert_eq!(
            texts(&running, "1.36.3", &bundle),
            ["1.34.4: c", "1.35.4: ", "1.36.3: b c"]
        );
        let interrupted = super::tests::running(
            &[("a", "1.34.4")],
            &[("a", "1.34.4"), ("b", "1.33.0"), ("c", "1.31.0")],
        );
        assert_eq!(
            texts(&interrupted, "1.36.3", &bundle),
            ["1.34.4: c", "1.35.4: ", "1.36.3: b c"]
        );
    }

    #[test]
    fn interrupted_upgrade_continues_with_the_hop_that_it_began() {
        let bundle = ["1.35.4", "1.36.3"];
        let mixed = running(
            &[("a", "1.35.4"), ("b", "1.34.4")],
            &[("a", "1.35.4"), ("b", "1.34.4"), ("c", "1.34.4")],
        );
        assert_eq!(texts(&mixed, "1.36.3", &bundle), ["1.35.4: ", "1.36.3: c"]);
        let kubelet = running(
            &[("a", "1.35.4"), ("b", "1.35.4")],
            &[("a", "1.35.4"), ("b", "1.34.4")],
        );
        assert_eq!(texts(&kubelet, "1.36.3", &bundle), ["1.35.4: ", "1.36.3: "]);
        let workers = running(&[("a", "1.36.3")], &[("a", "1.36.3"), ("c", "1.34.4")]);
        assert_eq!(texts(&workers, "1.36.3", &bundle), ["1.36.3: c"]);
    }

    #[test]
    fn kubelets_that_are_too_old_need_a_version_of_the_present_minor() {
        let late = running(
            &[("a", "1.34.4")],
            &[("a", "1.34.4"), ("b", "1.34.4"), ("c", "1.31.0")],
        );
        let newer = ["1.34.6", "1.35.4"];
        assert_eq!(texts(&late, "1.35.4", &newer), ["1.34.6: c", "1.35.4: b c"]);
        let refused = hops(
            &late,
            &version("1.35.4"),
            &["1.34.3", "1.35.4"].map(version),
        );
        let expected = "c: kubelet 1.31.0 is too old for API servers of Kubernetes 1.35.4, and the bundle has no Kubernetes \
                        1.34.4 for it\nhint: ";
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{refused}");
        let begun = running(
            &[("a", "1.35.4"), ("b", "1.34.4")],
            &[("a", "1.35.4"), ("b", "1.34.4"), ("c", "1.31.0")],
        );
        assert_eq!(texts(&begun, "1.35.4", &newer), ["1.35.4: c"]);
        let patch = hops(&late, &version("1.34.6"), &[version("1.34.6")]).unwrap();
        assert_eq!(patch.len(), 1);
    }

    #[test]
    fn control_plane_that_is_newer_than_a_hop_is_not_downgraded() {
        let mixed = running(
            &[("a", "1.35.6"), ("b", "1.34.4")],
            &[("a", "1.35.6"), ("b", "1.34.4")],
        );
        let bundle = ["1.35.4", "1.36.3"].map(version);
        let refused = hops(&mixed, &version("1.36.3"), &bundle)
            .unwrap_err()
            .to_string();
        let expected = "a: its API server has the version 1.35.6, and the upgrade goes through the older version 1.35.4: ";
        assert!(refused.starts_with(expected), "{refused}");
        let bundle = ["1.35.4", "1.35.6", "1.36.3"];
        assert_eq!(texts(&mixed, "1.36.3", &bundle), ["1.35.6: ", "1.36.3: "]);
    }

    #[test]
    fn downgrades_and_gaps_are_refused() {
        let running = running(&[("a", "1.34.4")], &[("a", "1.34.4")]);
        let refused = |to: &str, bundle: &[&str]| {
            let bundle: Vec<Version> = bundle.iter().map(|text| version(text)).collect();
            hops(&running, &version(to), &bundle)
                .unwrap_err()
                .to_string()
        };
        let older = refused("1.34.3", &["1.34.3"]);
        assert!(older.contains("does not support a downgrade"), "{older}");
        let gap = refused("1.37.0", &["1.36.3", "1.37.0"]);
        assert!(gap.contains("the bundle has no 1.35\n"), "{gap}");
        let major = refused("2.0.0", &["2.0.0"]);
        assert!(major.contains("major versions differ"), "{major}");
    }
}
