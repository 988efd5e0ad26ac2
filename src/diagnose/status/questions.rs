//! What kubexm asks a host about its programs, by the cluster file.

use std::collections::BTreeSet;

use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_deploy::expected;

/// A question of the script `status/host.sh`, with its values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question(Vec<String>);

impl Question {
    pub(super) fn new<const N: usize>(words: [&str; N]) -> Self {
        Self(words.map(str::to_owned).to_vec())
    }

    /// Returns the arguments of the script.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        self.0.iter().cloned()
    }

    /// Returns what an answer repeats: the kind of the question, and the name of what it is about.
    pub(super) fn subject(&self) -> (&str, &str) {
        let word = |at: usize| self.0.get(at).map_or("", String::as_str);
        match word(0) {
            // A host has one endpoint and at most one member of etcd.
            kind @ ("endpoint" | "etcd") => (kind, ""),
            kind => (kind, word(1)),
        }
    }
}

/// Returns what kubexm asks a host.
pub(super) fn of(cluster: &Cluster, host: &HostSpec) -> BTreeSet<Question> {
    let name = &host.name;
    let (is_node, is_control_plane) = (cluster.is_node(name), cluster.is_control_plane(name));
    let mut asked = BTreeSet::new();
    let mut ask = |question: Question| {
        asked.insert(question);
    };
    for unit in expected::units(cluster, host) {
        ask(Question::new(["unit", &unit]));
    }
    for pod in expected::static_pods(cluster, host) {
        ask(Question::new(["static-pod", &pod]));
    }
    for (program, url) in expected::health_checks(cluster, host) {
        ask(Question::new(["health", &program, &url]));
    }
    if is_control_plane {
        for program in expected::CONTROL_PLANE {
            ask(Question::new(["version", program]));
        }
        let url = expected::api_server(cluster, host);
        ask(Question::new(["running", expected::CONTROL_PLANE[0], &url]));
    }
    if is_node {
        ask(Question::new(["version", "kubelet"]));
        // The kubelet of a control plane may use its own API server.
        let config = if is_control_plane {
            "/etc/kubernetes/admin.conf"
        } else {
            "/etc/kubernetes/kubelet.conf"
        };
        ask(Question::new(["endpoint", config]));
        for registry in expected::registries(cluster) {
            ask(Question::new(["registry", &registry]));
        }
    }
    match &cluster.etcd {
        Etcd::Kubeadm { .. } if is_control_plane => ask(Question::new(["etcd", "kubeadm"])),
        Etcd::Systemd { .. } if cluster.roles.etcd.contains(name) => {
            ask(Question::new(["etcd", "systemd"]));
        }
        _ => {}
    }
    asked
}
