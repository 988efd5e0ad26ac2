//! Everything that would make an install fail later, found before anything is touched.

#[cfg(test)]
mod authority;
pub mod etcd_client;
mod exchange;
mod guards;
pub mod outside;
mod pods;
pub mod registry_client;
mod room;

use std::collections::BTreeMap;
use std::fmt;

use kubexm_config::cluster::{Cluster, Etcd, LoadBalancer};
use kubexm_host::facts::{Cgroup, Facts, Tool};
use kubexm_types::{Arch, HostName, Version};
pub use room::paths;
use room::{etcd_data, own_etcd};

/// Something that is not as an install needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The host.
    pub host: HostName,
    /// Whether the install cannot go on.
    pub fatal: bool,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl Finding {
    /// What is wrong on a host, and what to do.
    pub fn new(host: &HostName, fatal: bool, what: String, hint: &str) -> Self {
        Self {
            host: host.clone(),
            fatal,
            what,
            hint: hint.to_owned(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  hint: {}", self.host, self.what, self.hint)
    }
}

/// What the bundle offers and asks for.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// What the bundle has for each architecture that it is for.
    pub carried: BTreeMap<Arch, Carried>,
    /// KiB of the images of all architectures that the hosts have, packed.
    pub registry_kib: u64,
    /// (distribution, release) with packages in the bundle.
    pub releases: Vec<(String, String)>,
    /// The folder that images and containers grow in.
    pub runtime_dir: String,
}

/// What a bundle has for hosts of one architecture.
#[derive(Debug, Clone, Copy, Default)]
pub struct Carried {
    /// KiB of all images, packed.
    pub images_kib: u64,
    /// KiB of all binaries.
    pub files_kib: u64,
}

/// Least memory of a control plane in KiB: kubeadm's own figure
/// (<https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/install-kubeadm/>).
const CONTROL_PLANE_MEMORY: u64 = 1700 * 1024;

/// All findings on all hosts.
pub fn check(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>, offer: &Offer) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, facts) in facts {
        let mut checker = Checker {
            cluster,
            name,
            facts,
            offer,
            findings: &mut findings,
        };
        checker.machine();
        checker.disk_pressure();
        checker.system();
        checker.network();
        checker.pods();
        checker.leftovers();
    }
    duplicates(facts, &mut findings);
    findings.sort();
    findings
}

struct Checker<'a> {
    cluster: &'a Cluster,
    name: &'a HostName,
    facts: &'a Facts,
    offer: &'a Offer,
    findings: &'a mut Vec<Finding>,
}

impl Checker<'_> {
    fn error(&mut self, what: impl Into<String>, hint: &str) {
        self.add(true, what.into(), hint);
    }

    fn warning(&mut self, what: impl Into<String>, hint: &str) {
        self.add(false, what.into(), hint);
    }

    fn add(&mut self, fatal: bool, what: String, hint: &str) {
        self.findings
            .push(Finding::new(self.name, fatal, what, hint));
    }

    fn ignored(&self, check: &str) -> bool {
        self.cluster.kubernetes.ignores(check)
    }

    fn machine(&mut self) {
        match self.facts.arch() {
            None => self.error(
                format!("its architecture '{}' is unknown", self.facts.machine),
                "kubexm knows amd64 and arm64",
            ),
            Some(arch) if !self.offer.carried.contains_key(&arch) => {
                let there: Vec<&str> = self.offer.carried.keys().map(|a| a.name()).collect();
                let there = there.join(" and ");
                self.error(
                    format!("is {arch}, and the bundle has nothing for {arch}, only for {there}"),
                    "add it to spec.architectures of the manifest and build the bundle again",
                );
            }
            Some(arch) => {
                let given = self.cluster.host(self.name).and_then(|host| host.arch);
                if given.is_some_and(|given| given != arch) {
                    self.error(
                        format!("is {arch}, cluster.yaml says otherwise"),
                        "correct `arch`",
                    );
                }
            }
        }
        if self.cluster.is_control_plane(self.name) {
            self.control_plane();
        }
        self.room();
    }

    /// kubeadm's least machine for a control plane.
    fn control_plane(&mut self) {
        match self.facts.cpus {
            _ if self.ignored("NumCPU") => {}
            Some(0..2) => self.error(
                "has one CPU; a control plane needs two",
                "ignore with NumCPU",
            ),
            Some(_) => {}
            None => self.warning(
                "does not state its number of CPUs; a control plane needs two",
                "look at /proc/cpuinfo; ignore with NumCPU",
            ),
        }
        match self.facts.memory {
            _ if self.ignored("Mem") => {}
            Some(0..CONTROL_PLANE_MEMORY) => self.error(
                "has less than 1700 MiB of memory",
                "a control plane needs more; ignore with Mem",
            ),
            Some(_) => {}
            None => self.warning(
                "does not state its memory; a control plane needs 1700 MiB",
                "look at /proc/meminfo; ignore with Mem",
            ),
        }
    }

    fn system(&mut self) {
        if !self.facts.systemd {
            self.error("does not run systemd", "kubexm installs systemd units");
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
                    format!("lacks the program '{tool}'"),
                    "install it from your system's media",
                );
            }
        }
        self.packages();
        let limit = self.cluster.system.max_clock_skew_seconds as f64;
        if self.facts.clock_ahead.abs() > limit {
            let ahead = self.facts.clock_ahead;
            let word = if ahead > 0.0 { "ahead of" } else { "behind" };
            self.error(
                format!("its clock is {:.0} s {word} this machine's", ahead.abs()),
                "certificates fail with wrong clocks: set it, or run a time server in this network",
            );
        }
        if !self.facts.swap.is_empty() && !self.cluster.system.disable_swap {
            self.error(
                "swap is on and system.disableSwap is false",
                "turn swap off, or let kubexm do it",
            );
        }
        let failing = self.cluster.kubernetes.kubelet.extra_config["failCgroupV1"] != false;
        let new = self.cluster.kubernetes.version >= Version::new(1, 35, 0);
        if self.facts.cgroup == Some(Cgroup::V1) && new && failing {
            self.error(
                "has cgroup v1, with which this kubelet refuses to start",
                "boot it with cgroup v2, or set kubelet.extraConfig.failCgroupV1: false",
            );
        }
    }

    fn packages(&mut self) {
        let names = self.facts.releases();
        let has_set = names.iter().any(|name| self.offer.releases.contains(name));
        if has_set && self.cluster.system.install_packages {
            let tools = &self.facts.tools;
            if !tools.contains(&Tool::AptGet) && !tools.contains(&Tool::Dnf) {
                self.error(
                    "has neither apt-get nor dnf",
                    "install its packages by hand, and set system.installPackages: false",
                );
            }
            return;
        }
        let wanted = [
            Tool::Conntrack,
            Tool::Socat,
            Tool::Ebtables,
            Tool::Ipset,
            Tool::Ethtool,
            Tool::Iptables,
        ];
        let missing: Vec<Tool> = wanted
            .into_iter()
            .filter(|tool| !self.facts.tools.contains(tool))
            .collect();
        if missing.is_empty() {
            return;
        }
        let known_as: Vec<String> = names.iter().map(|(id, r)| format!("{id} {r}")).collect();
        let system = match known_as.is_empty() {
            true => self
                .facts
                .os
                .name
                .clone()
                .unwrap_or("its system".to_owned()),
            false => known_as.join(" or "),
        };
        let what = format!(
            "lacks {}, and the bundle has no packages for {system}",
            missing
                .iter()
                .map(|tool| tool.name())
                .collect::<Vec<_>>()
                .join(", ")
        );
        let hint = "add the release to spec.packages of the manifest, or install them";
        if missing.contains(&Tool::Conntrack) || missing.contains(&Tool::Iptables) {
            self.error(what, hint);
        } else {
            self.warning(what, hint);
        }
    }

    fn network(&mut self) {
        if let Some(host) = self.cluster.host(self.name)
            && !self.facts.addresses.contains(&host.internal_address)
        {
            self.error(
                format!(
                    "none of its interfaces has the address {}",
                    host.internal_address
                ),
                "correct internalAddress in cluster.yaml",
            );
        }
        if !self.facts.default_route {
            self.warning(
                "has no default route",
                "service addresses need one: ip route add default via <any gateway>",
            );
        }
        if self.facts.nameserver.is_none() {
            self.warning(
                "/etc/resolv.conf names no server",
                "names outside the cluster will not resolve in pods",
            );
        }
        for guards::Word { what, hint } in guards::words(self.cluster, self.name, self.facts) {
            self.warning(what, &hint);
        }
    }

    fn leftovers(&mut self) {
        if self.facts.receipt {
            return;
        }
        if self.facts.kubernetes {
            self.error(
                "has a Kubernetes that kubexm did not install",
                "kubeadm reset, or take another host",
            );
        }
        if !self.facts.runtimes.is_empty() {
            self.error(
                "has a container runtime that kubexm did not install",
                "remove it: kubexm will not overwrite it",
            );
        }
        if let Some(data) = own_etcd(self.cluster, self.name).map(etcd_data)
            && self.facts.existing.contains(&data)
        {
            self.error(
                format!("{data} holds the data of an etcd that kubexm did not install"),
                "move it away if nobody needs it, or set etcd.dataDir to another folder",
            );
        }
        let listening = &self.facts.listening;
        let mut ports = vec![10250];
        if self.cluster.is_control_plane(self.name) {
            ports.extend([6443, 10257, 10259]);
        }
        if !matches!(self.cluster.etcd, Etcd::External { .. })
            && self.cluster.roles.etcd.contains(self.name)
        {
            ports.extend([2379, 2380, 2381]);
        }
        if self.cluster.roles.registry.contains(self.name) {
            ports.push(self.cluster.registry.port);
        }
        let endpoint = &self.cluster.control_plane_endpoint;
        let has_proxy = match self.cluster.load_balancer {
            LoadBalancer::Holder { .. } => self.cluster.roles.load_balancer.contains(self.name),
            LoadBalancer::Local { .. } => self.cluster.is_node(self.name),
            LoadBalancer::None | LoadBalancer::External | LoadBalancer::Pods { .. } => false,
        };
        if has_proxy {
            ports.push(endpoint.port);
        }
        for port in ports.into_iter().filter(|port| listening.contains(port)) {
            self.error(
                format!("port {port} is in use"),
                "stop what listens there (ss -ltnp)",
            );
        }
    }
}

/// Clones of one machine share what must be unique.
fn duplicates(facts: &BTreeMap<HostName, Facts>, findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<&str, &HostName> = BTreeMap::new();
    for (name, facts) in facts {
        let Some(id) = facts.machine_id.as_deref() else {
            continue;
        };
        if let Some(other) = seen.insert(id, name) {
            findings.push(Finding {
                host: name.clone(),
                fatal: true,
                what: format!("has the machine-id of {other}: one was cloned from the other"),
                hint: "rm /etc/machine-id && systemd-machine-id-setup, then reboot".to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
