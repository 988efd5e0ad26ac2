//! For tests: a cluster of a control plane and a worker.

pub(crate) const CLUSTER: &str = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts:
    - {name: node1, address: 192.0.2.11}
    - {name: node2, address: 192.0.2.12}
  roleGroups: {control-plane: [node1], worker: [node2]}
  kubernetes: {version: 1.36.3}
";
