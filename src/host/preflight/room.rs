//! Room on disks.

use std::collections::BTreeMap;

use super::Checker;
use crate::spec::cluster::{Cluster, Etcd};
use crate::spec::{HostName, HostPath};

/// Where files arrive before they are put into place.
const STAGING: &str = "/var/lib/kubexm";
const PROGRAMS: &str = "/usr/local";

/// The paths of which [`check`] wants to know whether they are there, and what room there is;
/// `runtime` is the container runtime's data folder.
pub fn paths(cluster: &Cluster, runtime: &str) -> Vec<String> {
    let registry = cluster.registry.data_dir.as_str();
    let mut paths: Vec<String> = [STAGING, runtime, PROGRAMS, registry]
        .map(str::to_owned)
        .to_vec();
    if let Etcd::Kubexm { data_dir, .. } = &cluster.etcd {
        paths.extend([data_dir.to_string(), etcd_data(data_dir)]);
    }
    paths
}

/// The folder of a host's member, where kubexm runs etcd and the host has one.
pub(super) fn own_etcd<'a>(cluster: &'a Cluster, name: &HostName) -> Option<&'a HostPath> {
    match &cluster.etcd {
        Etcd::Kubexm { data_dir, .. } if cluster.roles.etcd.contains(name) => Some(data_dir),
        _ => None,
    }
}

/// Where a member of etcd has its data, in its folder.
pub(super) fn etcd_data(data_dir: &HostPath) -> String {
    format!("{data_dir}/member")
}

/// The kubelet's own `imagefs.available`, the highest of its thresholds for a disk
/// (<https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>).
const EVICTION_PERCENT: u64 = 15;
/// KiB that a member of etcd needs to begin with: its log is laid out in pieces of 64 MiB ahead of
/// time, and snapshots come on top.
const ETCD_ROOM: u64 = 1024 * 1024;
/// KiB below which a host that has its files deserves a word.
const ALMOST_FULL: u64 = 256 * 1024;

impl Checker<'_> {
    /// Paths on one file system need their room together.
    pub(super) fn room(&mut self) {
        let (cluster, runtime) = (self.cluster, self.offer.runtime_dir.as_str());
        let unpacked = if cluster.is_control_plane(self.name) {
            2
        } else {
            1
        };
        let mut needs = vec![
            (STAGING, self.offer.files_kib),
            (PROGRAMS, self.offer.files_kib),
            (runtime, self.offer.images_kib * unpacked),
        ];
        if cluster.roles.registry.contains(self.name) {
            needs.push((cluster.registry.data_dir.as_str(), self.offer.images_kib));
        }
        if let Some(data_dir) = own_etcd(self.cluster, self.name) {
            needs.push((data_dir.as_str(), ETCD_ROOM));
        }
        let facts = self.facts;
        let mut mounts: BTreeMap<&str, (u64, u64, Vec<&str>)> = BTreeMap::new();
        for (path, need) in needs {
            let Some((free, mount)) = facts.free(path) else {
                continue;
            };
            let entry = mounts.entry(mount).or_insert((free, 0, Vec::new()));
            entry.1 += need;
            entry.2.push(path);
        }
        // What an earlier run brought is there already, and how much that is nobody has counted.
        let again = facts.is("receipt");
        for (mount, (free, need, paths)) in mounts {
            let need = if again { ALMOST_FULL } else { need };
            if free < need {
                let what = format!(
                    "{mount} has {} MiB free, {} MiB are needed for {}",
                    free / 1024,
                    need.div_ceil(1024),
                    paths.join(", ")
                );
                self.add(!again, what, &format!("make room on {mount}"));
            }
        }
    }

    /// Below its eviction thresholds a kubelet is Ready and takes no pod.
    pub(super) fn disk_pressure(&mut self) {
        let runtime = self.offer.runtime_dir.as_str();
        let size = self.facts.number(&format!("size_{runtime}"));
        let Some(((free, mount), size)) = self.facts.free(runtime).zip(size) else {
            return;
        };
        let own = &self.cluster.kubernetes.kubelet.extra_config["evictionHard"];
        if own.is_null() && free.saturating_mul(100) < size.saturating_mul(EVICTION_PERCENT) {
            let percent = free.saturating_mul(100) / size.max(1);
            self.warning(
                format!("{mount} has {percent}% free: its node will refuse pods for DiskPressure"),
                "free more than 15%, or set kubelet.extraConfig.evictionHard (imagefs.available)",
            );
        }
    }
}
