//! Paths on hosts that the checks look at.

use crate::disk_space::{KUBELET, LOGS, PROGRAMS, STAGING, etcd_data};
use crate::leftovers::{OLD_ETCD, runtime_programs};
use kubexm_config::cluster::{Cluster, Etcd};

/// Returns the paths about which [`crate::check`] needs facts: existence and disk space. `runtime` is the
/// data folder of the container runtime.
pub fn paths(cluster: &Cluster, runtime: &str) -> Vec<String> {
    let registry = cluster.registry.data_dir.as_str();
    let mut paths: Vec<String> = [STAGING, runtime, PROGRAMS, registry, KUBELET, LOGS]
        .map(str::to_owned)
        .to_vec();
    paths.push(OLD_ETCD.to_owned());
    paths.extend(runtime_programs().map(str::to_owned));
    paths.extend(cluster.etcd.data_directory().map(str::to_owned));
    if let Etcd::Systemd { data_dir, .. } = &cluster.etcd {
        paths.push(etcd_data(data_dir));
    }
    paths
}
