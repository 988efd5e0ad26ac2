//! The versions through which an upgrade goes, by the version skew policy of Kubernetes
//! (<https://kubernetes.io/releases/version-skew-policy/>).

use std::collections::{BTreeMap, BTreeSet};

use crate::version_skew::{KUBELET_BEHIND, is_behind};
use kubexm_types::{HostName, Version};

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
pub enum NoPath {
    /// The cluster has a newer version.
    #[error(
        "the cluster runs Kubernetes {from}, and the cluster file has {to}: Kubernetes does not support a downgrade\n\
         hint: set kubernetes.version to {from} or a newer version"
    )]
    Downgrade {
        /// The newest version in the cluster.
        from: Version,
        /// The version of the cluster file.
        to: Version,
    },
    /// The major versions differ.
    #[error(
        "an upgrade from Kubernetes {from} to {to} is not supported: the major versions differ"
    )]
    Major {
        /// The version of the cluster.
        from: Version,
        /// The version of the cluster file.
        to: Version,
    },
    /// The bundle does not have each minor version in between.
    #[error(
        "an upgrade from Kubernetes {from} to {to} goes through each minor version, and the bundle has no {}\n\
         hint: add a version of each to kubernetes.versions of the manifest, and build the bundle again",
        .minors.join(" and no ")
    )]
    Missing {
        /// The version of the cluster.
        from: Version,
        /// The version of the cluster file.
        to: Version,
        /// The missing minor versions, as in `1.35`.
        minors: Vec<String>,
    },
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
pub fn hops(running: &Running, to: &Version, bundle: &[Version]) -> Result<Vec<Hop>, NoPath> {
    let Some(from) = running.oldest() else {
        return Ok(Vec::new());
    };
    let mut all = running
        .api_servers
        .values()
        .chain(running.kubelets.values());
    if let Some(newer) = all.find(|version| *version > to) {
        return Err(NoPath::Downgrade {
            from: newer.clone(),
            to: to.clone(),
        });
    }
    if from.major() != to.major() {
        return Err(NoPath::Major {
            from: from.clone(),
            to: to.clone(),
        });
    }
    let mut versions = Vec::new();
    let mut minors = Vec::new();
    for minor in from.minor() + 1..to.minor() {
        let of_minor =
            |version: &&Version| version.major() == to.major() && version.minor() == minor;
        match bundle.iter().filter(of_minor).max() {
            Some(version) => versions.push(version.clone()),
            None => minors.push(format!("{}.{minor}", to.major())),
        }
    }
    if !minors.is_empty() {
        return Err(NoPath::Missing {
            from: from.clone(),
            to: to.clone(),
            minors,
        });
    }
    versions.push(to.clone());
    // Control planes whose kubelets are older come from an interrupted hop to the version of the API servers.
    let has_older_kubelet = |name: &HostName| {
        running
            .kubelets
            .get(name)
            .is_some_and(|kubelet| kubelet < from)
    };
    let is_interrupted = running.api_servers.keys().any(has_older_kubelet);
    // Workers that are too old for the next version come from an interrupted hop, too.
    let is_too_old = |kubelet: &Version| {
        versions
            .first()
            .is_some_and(|next| is_behind(kubelet, next, KUBELET_BEHIND))
    };
    let repeats = is_interrupted || running.kubelets.values().any(is_too_old);
    if from != to && repeats && bundle.contains(from) {
        versions.insert(0, from.clone());
    }
    Ok(with_workers(running, versions))
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
