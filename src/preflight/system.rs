//! Checks the operating system: its programs, file systems, clock, swap and control groups.

use crate::checker::Checker;
use crate::finding::Finding;
use crate::host_checks;
use kubexm_host::facts::{Cgroup, Tool};
use kubexm_kinds::PackageManager;
use kubexm_types::{FindingKind, Version};

impl Checker<'_> {
    pub(super) fn system(&mut self) {
        if !self.facts.systemd {
            self.error(
                FindingKind::Systemd,
                "does not run systemd",
                "use a distribution with systemd: kubexm installs systemd units",
            );
        }
        let needed = [
            Tool::Tar,
            Tool::Gzip,
            Tool::Sha256sum,
            Tool::Flock,
            Tool::Systemctl,
        ];
        for tool in needed {
            if !self.facts.tools.contains(&tool) {
                self.error(
                    FindingKind::Programs,
                    format!("the program '{tool}' is missing"),
                    "install it from the packages of your distribution",
                );
            }
        }
        let directories = host_checks::directories(self.cluster, self.name).into_iter();
        let is_read_only = |path: &str| {
            let mut above = self.facts.read_only.iter();
            self.facts.read_only_disks.contains(path)
                && !above.any(|own| path.starts_with(own.as_str()))
        };
        let data = directories.filter(|path| is_read_only(path));
        let folders = self.facts.read_only.iter().map(String::as_str);
        for folder in folders.chain(data) {
            let finding = format!("cannot write {folder}: the file system is mounted read-only");
            let hint = "mount it for writing, or use a host where it can be written";
            self.findings.push(Finding::new(
                FindingKind::FileSystems,
                self.name,
                true,
                finding,
                hint,
            ));
        }
        self.packages();
        let limit = self.cluster.system.max_clock_skew_seconds as f64;
        if self.facts.clock_ahead.abs() > limit {
            let ahead = self.facts.clock_ahead;
            let direction = if ahead > 0.0 { "ahead of" } else { "behind" };
            self.error(
                FindingKind::Clock,
                format!(
                    "its clock is {:.0} s {direction} the clock of this machine",
                    ahead.abs()
                ),
                "set the clock, or run a time server in this network: certificates depend on the time",
            );
        }
        let kubelet = &self.cluster.kubernetes.kubelet.extra_config;
        let starts = self.cluster.system.disable_swap || kubelet["failSwapOn"] == false;
        if !self.facts.swap.is_empty() && !starts {
            self.error(
                FindingKind::Swap,
                "swap is on, but spec.system.disableSwap is false",
                "run swapoff -a, set spec.system.disableSwap: true, or set kubelet.extraConfig.failSwapOn: false",
            );
        }
        let failing = self.cluster.kubernetes.kubelet.extra_config["failCgroupV1"] != false;
        let new = self.cluster.kubernetes.version >= Version::new(1, 35, 0);
        if self.facts.cgroup == Some(Cgroup::V1) && new && failing {
            self.error(
                FindingKind::Cgroup,
                "uses cgroup v1, which kubelets since 1.35 refuse",
                "boot the host with cgroup v2, or set kubelet.extraConfig.failCgroupV1: false and \
                 kubeadm.ignorePreflightErrors: [SystemVerification]",
            );
        }
    }

    fn packages(&mut self) {
        let names = self.facts.releases();
        let has_set = names.iter().any(|name| self.offer.releases.contains(name));
        if has_set && self.cluster.system.install_packages {
            let programs = PackageManager::ALL.iter().map(|manager| manager.program());
            let programs: Vec<&str> = programs.collect();
            let is_there = |tool: &Tool| programs.contains(&tool.name());
            if !self.facts.tools.iter().any(is_there) {
                self.error(
                    FindingKind::Packages,
                    format!("has neither {}", programs.join(" nor ")),
                    "install the packages manually, and set spec.system.installPackages: false",
                );
            }
            return;
        }
        let needed = [
            Tool::Conntrack,
            Tool::Socat,
            Tool::Ebtables,
            Tool::Ipset,
            Tool::Ethtool,
            Tool::Iptables,
        ];
        let missing: Vec<Tool> = needed
            .into_iter()
            .filter(|tool| !self.facts.tools.contains(tool))
            .collect();
        if missing.is_empty() {
            return;
        }
        let known_as: Vec<String> = names.iter().map(|(id, r)| format!("{id} {r}")).collect();
        let system = if known_as.is_empty() {
            self.facts
                .os
                .name
                .clone()
                .unwrap_or("its distribution".to_owned())
        } else {
            known_as.join(" or ")
        };
        let what = format!(
            "the programs {} are missing, and the bundle has no packages for {system}",
            missing
                .iter()
                .map(|tool| tool.name())
                .collect::<Vec<_>>()
                .join(", ")
        );
        let hint = "install them, or add the release to spec.packages of the bundle manifest";
        if missing.contains(&Tool::Conntrack) || missing.contains(&Tool::Iptables) {
            self.error(FindingKind::Programs, what, hint);
        } else {
            self.warning(FindingKind::Programs, what, hint);
        }
    }
}
