//! Checks the architecture, the processors and the memory, and finds clones.

use std::collections::BTreeMap;

use crate::checker::Checker;
use crate::finding::Finding;
use kubexm_host::facts::Facts;
use kubexm_types::{FindingKind, HostName};

/// The least memory of a control plane in KiB: kubeadm's own limit
/// (<https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/install-kubeadm/>).
const CONTROL_PLANE_MEMORY: u64 = 1700 * 1024;

impl Checker<'_> {
    pub(super) fn machine(&mut self) {
        match self.facts.arch() {
            None => self.error(
                FindingKind::Architecture,
                format!("its architecture '{}' is not supported", self.facts.machine),
                "use a host with amd64 or arm64",
            ),
            Some(arch) if !self.offer.carried.contains_key(&arch) => {
                let present: Vec<&str> = self.offer.carried.keys().map(|a| a.name()).collect();
                let present = present.join(" and ");
                self.error(
                    FindingKind::Architecture,
                    format!("is {arch}, but the bundle only has content for {present}"),
                    "add the architecture to spec.architectures of the bundle manifest and build the bundle again",
                );
            }
            Some(arch) => {
                let given = self.cluster.host(self.name).and_then(|host| host.arch);
                if let Some(given) = given.filter(|given| *given != arch) {
                    self.error(
                        FindingKind::Architecture,
                        format!("is {arch}, but the cluster file states {given}"),
                        "correct arch of the host in the cluster file",
                    );
                }
            }
        }
        if self.cluster.is_control_plane(self.name) {
            self.control_plane();
        }
        self.disk_space();
    }

    /// Compares a control plane with the limits of kubeadm.
    fn control_plane(&mut self) {
        match self.facts.cpus {
            _ if self.ignored("NumCPU") => {}
            Some(0..2) => self.error(
                FindingKind::Cpus,
                "has one CPU, but a control plane needs two",
                "add a CPU, or add NumCPU to kubernetes.kubeadm.ignorePreflightErrors",
            ),
            Some(_) => {}
            None => self.warning(
                FindingKind::Cpus,
                "does not report its number of CPUs; a control plane needs two",
                "check /proc/cpuinfo, or add NumCPU to kubernetes.kubeadm.ignorePreflightErrors",
            ),
        }
        match self.facts.memory {
            _ if self.ignored("Mem") => {}
            Some(0..CONTROL_PLANE_MEMORY) => self.error(
                FindingKind::Memory,
                "has less than the 1700 MiB of memory that a control plane needs",
                "add memory, or add Mem to kubernetes.kubeadm.ignorePreflightErrors",
            ),
            Some(_) => {}
            None => self.warning(
                FindingKind::Memory,
                "does not report its memory; a control plane needs 1700 MiB",
                "check /proc/meminfo, or add Mem to kubernetes.kubeadm.ignorePreflightErrors",
            ),
        }
    }
}

/// Reports hosts with the same machine-id, which are clones of one machine. The one that is not a node yet is the clone.
pub(super) fn duplicates(all: &BTreeMap<HostName, Facts>, findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<&str, &HostName> = BTreeMap::new();
    for (name, facts) in all {
        let Some(id) = facts.machine_id.as_deref() else {
            continue;
        };
        let Some(other) = seen.get(id).copied() else {
            seen.insert(id, name);
            continue;
        };
        let is_node = |name: &HostName| all.get(name).is_some_and(Facts::is_node);
        let (clone, original) = if is_node(name) && !is_node(other) {
            (other, name)
        } else {
            (name, other)
        };
        seen.insert(id, original);
        findings.push(Finding {
            kind: FindingKind::MachineId,
            host: clone.clone(),
            fatal: true,
            what: format!("has the same machine-id as {original}: one is a clone of the other"),
            hint: "run rm /etc/machine-id && systemd-machine-id-setup, then reboot".to_owned(),
        });
    }
}
