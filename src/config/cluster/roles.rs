//! The hosts of each role.

use kubexm_types::HostName;

/// Host names by role. Each list is in the order of the file, without duplicates.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    /// Control planes; the first runs `kubeadm init`. Never empty.
    pub control_plane: Vec<HostName>,
    /// Workers. A host that is also a control plane joins only once.
    pub worker: Vec<HostName>,
    /// Hosts of the registries that kubexm runs, each with all images. Default: the first control plane, or no host
    /// with an external registry.
    pub registry: Vec<HostName>,
    /// Members of an etcd that kubexm runs. Default: the control planes.
    pub etcd: Vec<HostName>,
    /// Hosts of a load balancer that kubexm runs. Default: the control planes.
    pub load_balancer: Vec<HostName>,
}
