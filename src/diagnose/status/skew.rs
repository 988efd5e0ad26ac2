//! Rules about versions that work together
//! (<https://kubernetes.io/releases/version-skew-policy/>).

use std::collections::BTreeMap;

use super::report::{About, Problem};
use kubexm_config::cluster::Cluster;
use kubexm_deploy::version_skew::{KUBELET_BEHIND, is_behind};
use kubexm_types::{HostName, Version};

/// The versions of a cluster, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Of API servers that answer.
    pub(super) servers: BTreeMap<HostName, Version>,
    /// Of controller managers and schedulers, by host and name.
    pub(super) controllers: BTreeMap<(HostName, String), Version>,
    /// Of kubelets that run, by node.
    pub(super) kubelets: BTreeMap<HostName, Version>,
    /// Of the programs of kubelets.
    pub(super) installed: BTreeMap<HostName, Version>,
    /// Of members of etcd.
    pub(super) members: BTreeMap<HostName, Version>,
}

/// How many minor versions older than the API server a controller manager or a scheduler may be.
const CONTROLLER_BEHIND: u64 = 1;

/// Returns the violations of the rules, and versions that differ from those of the cluster file.
pub(super) fn judge(cluster: &Cluster, versions: &Versions) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |host: Option<&HostName>, what: String, hint: &str| {
        let problem = Problem::new(About::Version, what, hint);
        problems.push(match host {
            Some(host) => problem.on(host),
            None => problem,
        });
    };
    if let Some((least, greatest)) = range(&versions.members)
        && is_behind(least, greatest, 1)
    {
        let what = format!("members of etcd have the versions {least} and {greatest}");
        add(
            None,
            what,
            "upgrade etcd one minor version at a time, one member after another",
        );
    }
    for (host, installed) in &versions.installed {
        if let Some(running) = versions
            .kubelets
            .get(host)
            .filter(|running| *running != installed)
        {
            let what = format!("the kubelet {running} runs, and its program is {installed}");
            add(
                Some(host),
                what,
                "restart the kubelet on this host with `systemctl restart kubelet`",
            );
        }
    }
    let Some((oldest, newest)) = range(&versions.servers) else {
        return problems;
    };
    if is_behind(oldest, newest, 1) {
        let what = format!("API servers have the versions {oldest} and {newest}");
        add(
            None,
            what,
            "they may differ by one minor version: complete the upgrade of all control planes",
        );
    }
    for (host, version) in &versions.kubelets {
        if is_newer(version, oldest) {
            let what = format!("the kubelet {version} is newer than the API server {oldest}");
            add(
                Some(host),
                what,
                "upgrade the control planes first: a kubelet must not be newer",
            );
        } else if is_behind(version, newest, KUBELET_BEHIND) {
            let what = format!(
                "the kubelet {version} is more than {KUBELET_BEHIND} minor versions older than the API server {newest}"
            );
            add(Some(host), what, "upgrade the kubelet of this node");
        }
    }
    for ((host, name), version) in &versions.controllers {
        if is_newer(version, oldest) {
            let what = format!("{name} {version} is newer than the API server {oldest}");
            add(Some(host), what, "complete the upgrade of all API servers");
        } else if is_behind(version, newest, CONTROLLER_BEHIND) {
            let what = format!(
                "{name} {version} is more than one minor version older than the API server {newest}"
            );
            add(
                Some(host),
                what,
                "complete the upgrade of this control plane",
            );
        }
    }
    let stated = &cluster.kubernetes.version;
    if let Some((host, version)) = versions
        .servers
        .iter()
        .find(|(_, version)| *version != stated)
    {
        let what = format!("the API server is {version}, and the cluster file states {stated}");
        add(
            Some(host),
            what,
            "run kubexm upgrade, or correct spec.kubernetes.version",
        );
    }
    problems
}

fn range<K>(versions: &BTreeMap<K, Version>) -> Option<(&Version, &Version)> {
    Some((versions.values().min()?, versions.values().max()?))
}

/// Returns whether a version has a greater minor than another one. Patch versions are compatible.
fn is_newer(version: &Version, than: &Version) -> bool {
    version.major_minor() > than.major_minor()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_session::example::cluster_of_two as cluster;

    fn host(name: &str) -> HostName {
        name.parse().unwrap()
    }

    fn by_host(versions: &[(&str, &str)]) -> BTreeMap<HostName, Version> {
        let versions = versions.iter();
        versions
            .map(|(name, version)| (host(name), version.parse().unwrap()))
            .collect()
    }

    fn judged(versions: &Versions) -> Vec<String> {
        let problems = judge(&cluster(""), versions);
        let lines = problems.iter().map(ToString::to_string);
        lines
            .map(|text| text.lines().next().unwrap().to_owned())
            .collect()
    }

    fn kubelet(version: &str) -> Vec<String> {
        judged(&Versions {
            servers: by_host(&[("node1", "1.36.3")]),
            kubelets: by_host(&[("node2", version)]),
            ..Versions::default()
        })
    }

    #[test]
    fn kubelet_is_at_most_three_minors_older_and_not_newer() {
        for fine in ["1.36.3", "1.36.9", "1.33.0"] {
            assert!(kubelet(fine).is_empty(), "{fine}");
        }
        assert_eq!(
            kubelet("1.37.0"),
            ["node2: the kubelet 1.37.0 is newer than the API server 1.36.3"]
        );
        assert_eq!(
            kubelet("1.32.9"),
            [
                "node2: the kubelet 1.32.9 is more than 3 minor versions older than the API server 1.36.3"
            ]
        );
    }

    #[test]
    fn kubelet_is_compared_with_every_api_server() {
        let found = judged(&Versions {
            servers: by_host(&[("node1", "1.36.3"), ("node3", "1.35.9")]),
            kubelets: by_host(&[("node2", "1.36.3")]),
            ..Versions::default()
        });
        let newer = "node2: the kubelet 1.36.3 is newer than the API server 1.35.9";
        let other = "node3: the API server is 1.35.9, and the cluster file states 1.36.3";
        assert_eq!(found, [newer, other]);
    }

    #[test]
    fn api_servers_and_members_differ_by_one_minor() {
        let found = judged(&Versions {
            servers: by_host(&[("node1", "1.36.3"), ("node3", "1.34.9")]),
            members: by_host(&[("node1", "3.4.0"), ("node3", "3.6.8")]),
            ..Versions::default()
        });
        assert_eq!(
            found[0],
            "members of etcd have the versions 3.4.0 and 3.6.8"
        );
        assert_eq!(found[1], "API servers have the versions 1.34.9 and 1.36.3");
    }

    #[test]
    fn controllers_are_not_newer_and_at_most_one_minor_older() {
        let found = |version: &str| {
            let key = (host("node1"), "kube-scheduler".to_owned());
            judged(&Versions {
                servers: by_host(&[("node1", "1.36.3")]),
                controllers: BTreeMap::from([(key, version.parse().unwrap())]),
                ..Versions::default()
            })
        };
        assert!(found("1.35.0").is_empty());
        assert_eq!((found("1.37.0").len(), found("1.34.9").len()), (1, 1));
    }

    #[test]
    fn kubelet_that_was_not_restarted_is_found() {
        let found = judged(&Versions {
            kubelets: by_host(&[("node2", "1.36.2")]),
            installed: by_host(&[("node1", "1.36.3"), ("node2", "1.36.3")]),
            ..Versions::default()
        });
        assert_eq!(
            found,
            ["node2: the kubelet 1.36.2 runs, and its program is 1.36.3"]
        );
    }

    #[test]
    fn nothing_known_is_no_violation() {
        assert!(judged(&Versions::default()).is_empty());
    }
}
