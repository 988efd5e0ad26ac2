//! A small cluster, for tests.

use super::{EndpointState, EtcdState, HostState, StatusReport};
use kubexm_config::{Cluster, parse_cluster};
use kubexm_types::HostName;

pub(super) const CLUSTER: &str = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts:
    - {name: node1, address: 192.0.2.11}
    - {name: node2, address: 192.0.2.12}
  roleGroups: {control-plane: [node1], worker: [node2]}
  kubernetes: {version: 1.36.3, KUBERNETES}
";

/// Returns a cluster of a control plane and a worker. `kubernetes` has further fields of that section.
pub(crate) fn cluster(kubernetes: &str) -> Cluster {
    parse_cluster("example", &CLUSTER.replace("KUBERNETES", kubernetes)).unwrap()
}

/// Returns the same cluster without kubeadm.
pub(crate) fn cluster_of_units() -> Cluster {
    let text = format!("{CLUSTER}  etcd: {{type: systemd}}\n");
    parse_cluster("example", &text.replace("KUBERNETES", "type: systemd")).unwrap()
}

/// Returns a cluster of three control planes behind a load balancer of the site, and a worker.
pub(crate) fn cluster_of_four() -> Cluster {
    let text = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts:
    - {name: node1, address: 192.0.2.11}
    - {name: node2, address: 192.0.2.12}
    - {name: node3, address: 192.0.2.13}
    - {name: node4, address: 192.0.2.14}
  roleGroups: {control-plane: [node1, node2, node3], worker: [node4]}
  highAvailability: {type: external}
  controlPlaneEndpoint: {address: 192.0.2.99}
  kubernetes: {version: 1.36.3}
";
    parse_cluster("example", text).unwrap()
}

/// Returns the report of a cluster without problems, whose hosts have no roles.
pub(crate) fn report(cluster: &Cluster) -> StatusReport {
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
        problems: Vec::new(),
    }
}
