//! Checks disk space.

use std::collections::BTreeMap;

use crate::checker::Checker;
use kubexm_config::cluster::{Cluster, Etcd};
use kubexm_host::facts::Disk;
use kubexm_types::{FindingKind, HostName, HostPath};

/// The folder that receives files before they are installed.
pub(super) const STAGING: &str = "/var/lib/kubexm";
/// The folder that receives programs.
pub(super) const PROGRAMS: &str = "/usr/local";

/// Returns the data folder of etcd, if kubexm runs a member on the host.
pub(super) fn own_etcd<'a>(cluster: &'a Cluster, name: &HostName) -> Option<&'a HostPath> {
    match &cluster.etcd {
        Etcd::Systemd { data_dir, .. } if cluster.roles.etcd.contains(name) => Some(data_dir),
        _ => None,
    }
}

/// The directory of the kubelet. No setting of a cluster file moves it.
pub(super) const KUBELET: &str = "/var/lib/kubelet";
/// The directory of logs. Those of pods and of the audit are there.
pub(super) const LOGS: &str = "/var/log";

/// Returns the data directory of the member of etcd on a host, which kubexm or kubeadm runs.
pub(super) fn member_directory<'a>(cluster: &'a Cluster, host: &HostName) -> Option<&'a str> {
    let has_member = match &cluster.etcd {
        Etcd::Kubeadm { .. } => cluster.is_control_plane(host),
        Etcd::Systemd { .. } => cluster.roles.etcd.contains(host),
        Etcd::External { .. } => false,
    };
    cluster.etcd.data_directory().filter(|_| has_member)
}

/// Returns the folder in which a member of etcd stores its data.
pub(super) fn etcd_data(data_dir: &HostPath) -> String {
    format!("{data_dir}/member")
}

/// The kubelet's default for `imagefs.available` in percent, the highest of its thresholds for disks
/// (<https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>).
const EVICTION_PERCENT: u64 = 15;
/// Disk space in KiB for a new member of etcd: it allocates its log in files of 64 MiB, and writes
/// snapshots.
const ETCD_SPACE: u64 = 1024 * 1024;
/// Free space in KiB below which an installed host gets a warning, and that pods and logs of a new host need.
pub const ALMOST_FULL: u64 = 256 * 1024;

impl Checker<'_> {
    /// Compares the free space of each file system with the sum of what its paths need.
    pub(super) fn disk_space(&mut self) {
        let (cluster, runtime) = (self.cluster, self.offer.runtime_dir.as_str());
        let unpacked = if cluster.is_control_plane(self.name) {
            2
        } else {
            1
        };
        let arch = self.facts.arch();
        let carried = arch.and_then(|arch| self.offer.carried.get(&arch));
        let carried = carried.copied().unwrap_or_default();
        let mut needs = vec![
            (STAGING, carried.files_kib),
            (PROGRAMS, carried.files_kib),
            (runtime, carried.images_kib * unpacked),
        ];
        if cluster.roles.registry.contains(self.name) {
            needs.push((cluster.registry.data_dir.as_str(), self.offer.registry_kib));
        }
        if let Some(directory) = member_directory(cluster, self.name) {
            needs.push((directory, ETCD_SPACE));
        }
        if cluster.is_node(self.name) {
            needs.extend([(KUBELET, ALMOST_FULL), (LOGS, ALMOST_FULL)]);
        }
        let facts = self.facts;
        let mut mounts: BTreeMap<&str, (u64, u64, Vec<&str>)> = BTreeMap::new();
        for (path, need) in needs {
            let Some(disk) = facts.disks.get(path) else {
                continue;
            };
            let entry = mounts
                .entry(&disk.mount)
                .or_insert((disk.free, 0, Vec::new()));
            entry.1 += need;
            entry.2.push(path);
        }
        // An earlier run already wrote some of the files, and kubexm does not know how many.
        let again = facts.receipt;
        for (mount, (free, need, paths)) in mounts {
            let need = if again { ALMOST_FULL } else { need };
            if free < need {
                // Logs need some space later, and an install does not.
                let logs = if paths.contains(&LOGS) {
                    ALMOST_FULL
                } else {
                    0
                };
                let fatal = !again && free < need - logs;
                let what = format!(
                    "{mount} has {} MiB free, but {} need {} MiB",
                    free / 1024,
                    paths.join(", "),
                    need.div_ceil(1024)
                );
                self.add(
                    FindingKind::DiskSpace,
                    fatal,
                    what,
                    &format!("free space on {mount}, or enlarge it"),
                );
            }
        }
    }

    /// Warns if the kubelet would refuse pods. Below its eviction thresholds a node is Ready, but taints
    /// itself.
    pub(super) fn disk_pressure(&mut self) {
        let runtime = self.offer.runtime_dir.as_str();
        let Some(Disk { free, size, mount }) = self.facts.disks.get(runtime) else {
            return;
        };
        let own = &self.cluster.kubernetes.kubelet.extra_config["evictionHard"];
        if own.is_null() && free.saturating_mul(100) < size.saturating_mul(EVICTION_PERCENT) {
            let percent = free.saturating_mul(100) / (*size).max(1);
            self.warning(
                FindingKind::DiskSpace,
                format!("{mount} has {percent}% free: the kubelet will report DiskPressure and refuse pods"),
                "free more than 15%, or set kubelet.extraConfig.evictionHard (imagefs.available)",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::disk_space::*;
    use crate::{Carried, Offer, check, paths};
    use kubexm_config::example::cluster_of;
    use kubexm_host::facts::Facts;
    use kubexm_types::Arch;

    /// Returns the findings of a control plane with this architecture and free space. The bundle has this
    /// many MiB of images for each architecture.
    fn findings(bundle: &[(Arch, u64)], machine: &str, free_mib: u64) -> String {
        let roles = "control-plane: [node1], worker: [node1], registry: [node1]";
        let cluster = cluster_of(roles, "", "");
        let carried = |mib: u64| Carried {
            images_kib: mib * 1024,
            files_kib: 0,
        };
        let offer = Offer {
            carried: bundle
                .iter()
                .map(|(arch, mib)| (*arch, carried(*mib)))
                .collect(),
            registry_kib: 1000 * 1024,
            releases: Vec::new(),
            runtime_dir: "/var/lib/containerd".to_owned(),
        };
        let disk = Disk {
            free: free_mib * 1024,
            size: free_mib * 1024,
            mount: "/".to_owned(),
        };
        let paths = paths(&cluster, &offer.runtime_dir).into_iter();
        let facts = Facts {
            machine: machine.to_owned(),
            disks: paths.map(|path| (path, disk.clone())).collect(),
            ..Facts::default()
        };
        let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
        let found = check(&cluster, &facts, &offer);
        found.iter().map(|finding| format!("{finding}\n")).collect()
    }

    /// Returns the findings that contain a text, with their hints.
    fn about(findings: &str, what: &str) -> String {
        let lines: Vec<&str> = findings.lines().collect();
        let about = lines.chunks(2).filter(|pair| pair[0].contains(what));
        about.map(|pair| pair.join("\n")).collect()
    }

    const BOTH: [(Arch, u64); 2] = [(Arch::Amd64, 1000), (Arch::Arm64, 5000)];

    #[test]
    fn content_for_other_architectures_needs_no_space() {
        // Unpacked images take twice their size, and the registry stores them, too.
        // A member of etcd needs 1024 MiB, and pods and logs 256 MiB each.
        assert!(!findings(&BOTH, "x86_64", 4536).contains("MiB free"));
        let short = findings(&BOTH, "x86_64", 4535);
        insta::assert_snapshot!(about(&short, "MiB free"), @"
        node1: / has 4535 MiB free, but /var/lib/kubexm, /usr/local, /var/lib/containerd, /var/lib/kubexm/registry, /var/lib/etcd, /var/lib/kubelet, /var/log need 4536 MiB
          hint: free space on /, or enlarge it
        ");
        let short = findings(&BOTH, "aarch64", 3000);
        insta::assert_snapshot!(about(&short, "MiB free"), @"
        node1: / has 3000 MiB free, but /var/lib/kubexm, /usr/local, /var/lib/containerd, /var/lib/kubexm/registry, /var/lib/etcd, /var/lib/kubelet, /var/log need 12536 MiB
          hint: free space on /, or enlarge it
        ");
    }

    #[test]
    fn logs_without_space_are_a_warning() {
        let roles = "control-plane: [node1], worker: [node1], registry: [node1]";
        let cluster = cluster_of(roles, "", "");
        let mut own = Facts::default();
        let mut fatal = |path: &str| {
            let disk = Disk {
                free: ALMOST_FULL - 1,
                size: ALMOST_FULL,
                mount: "/data".to_owned(),
            };
            own.disks = [(path.to_owned(), disk)].into();
            let facts = BTreeMap::from([("node1".parse().unwrap(), own.clone())]);
            let found = check(&cluster, &facts, &Offer::default());
            let mut found = found.iter();
            found
                .find(|one| one.what.starts_with("/data has"))
                .map(|one| one.fatal)
        };
        assert_eq!(fatal(LOGS), Some(false));
        assert_eq!(fatal(KUBELET), Some(true));
    }

    #[test]
    fn missing_architecture_is_reported_with_those_of_the_bundle() {
        insta::assert_snapshot!(about(&findings(&BOTH[..1], "aarch64", 9000), "only has content"), @"
        node1: is arm64, but the bundle only has content for amd64
          hint: add the architecture to spec.architectures of the bundle manifest and build the bundle again
        ");
        assert!(!findings(&BOTH, "aarch64", 19000).contains("only has content"));
    }
}
