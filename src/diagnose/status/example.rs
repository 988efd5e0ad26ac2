//! A small cluster, for tests.

use super::{EndpointState, EtcdState, HostState, StatusReport};
use kubexm_config::Cluster;
use kubexm_types::HostName;

/// Returns the report of a cluster without problems, whose hosts have no roles.
pub fn report(cluster: &Cluster) -> StatusReport {
    let state = |host: &HostName| HostState {
        clock_ahead: Some(0),
        ..HostState::new(host, Vec::new())
    };
    StatusReport {
        rotation: None,
        cluster: cluster.name.clone(),
        id: None,
        bundle: None,
        kubernetes: cluster.kubernetes.version.clone(),
        endpoint: EndpointState {
            address: String::new(),
            answers: cluster
                .nodes()
                .iter()
                .map(|node| node.name.clone())
                .collect(),
            silent: Vec::new(),
        },
        etcd: EtcdState {
            kind: "kubeadm",
            expected: 1,
            members: Vec::new(),
        },
        registries: Vec::new(),
        hosts: cluster.hosts.iter().map(|host| state(&host.name)).collect(),
        drift: None,
        timers: Vec::new(),
        applications: Some(Vec::new()),
        problems: Vec::new(),
    }
}
