//! Checks before an install: everything that would make it fail later, before any host is changed.

#[cfg(test)]
mod authority;
mod disk_space;
pub mod etcd_client;
#[cfg(test)]
mod example;
mod exchange;
pub mod external_checks;
mod firewall;
pub mod identity;
mod immutable;
mod pods;
mod probe;
pub mod registry_client;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

pub use disk_space::paths;
use disk_space::{etcd_data, own_etcd};
pub use immutable::check as immutable_settings;
use kubexm_config::cluster::{Cluster, Etcd, LoadBalancer};
use kubexm_host::facts::{Cgroup, Facts, Tool};
use kubexm_types::{Arch, HostName, Version};

/// A problem of a host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub host: HostName,
    /// Whether the problem prevents an install.
    pub fatal: bool,
    /// What is wrong.
    pub what: String,
    /// The action that solves the problem.
    pub hint: String,
}

impl Finding {
    /// Returns a problem of a host.
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

/// The content of the bundle that the checks compare with hosts.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// The content for each architecture of the bundle.
    pub carried: BTreeMap<Arch, Carried>,
    /// The compressed size, in KiB, of the images for all architectures of the hosts.
    pub registry_kib: u64,
    /// Distributions and releases for which the bundle has packages.
    pub releases: Vec<(String, String)>,
    /// The folder in which the container runtime stores images and containers.
    pub runtime_dir: String,
}

/// The content of a bundle for hosts of one architecture.
#[derive(Debug, Clone, Copy, Default)]
pub struct Carried {
    /// The compressed size of all images, in KiB.
    pub images_kib: u64,
    /// The size of all binaries, in KiB.
    pub files_kib: u64,
}

/// The least memory of a control plane in KiB: kubeadm's own limit
/// (<https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/install-kubeadm/>).
const CONTROL_PLANE_MEMORY: u64 = 1700 * 1024;

/// Returns the findings of all hosts, in the order of their names, without those of [`immutable_settings`].
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
        checker.names();
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
                format!("its architecture '{}' is not supported", self.facts.machine),
                "use a host with amd64 or arm64",
            ),
            Some(arch) if !self.offer.carried.contains_key(&arch) => {
                let present: Vec<&str> = self.offer.carried.keys().map(|a| a.name()).collect();
                let present = present.join(" and ");
                self.error(
                    format!("is {arch}, but the bundle only has content for {present}"),
                    "add the architecture to spec.architectures of the bundle manifest and build the bundle again",
                );
            }
            Some(arch) => {
                let given = self.cluster.host(self.name).and_then(|host| host.arch);
                if let Some(given) = given.filter(|given| *given != arch) {
                    self.error(
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
                "has one CPU, but a control plane needs two",
                "add a CPU, or add NumCPU to kubernetes.kubeadm.ignorePreflightErrors",
            ),
            Some(_) => {}
            None => self.warning(
                "does not report its number of CPUs; a control plane needs two",
                "check /proc/cpuinfo, or add NumCPU to kubernetes.kubeadm.ignorePreflightErrors",
            ),
        }
        match self.facts.memory {
            _ if self.ignored("Mem") => {}
            Some(0..CONTROL_PLANE_MEMORY) => self.error(
                "has less than the 1700 MiB of memory that a control plane needs",
                "add memory, or add Mem to kubernetes.kubeadm.ignorePreflightErrors",
            ),
            Some(_) => {}
            None => self.warning(
                "does not report its memory; a control plane needs 1700 MiB",
                "check /proc/meminfo, or add Mem to kubernetes.kubeadm.ignorePreflightErrors",
            ),
        }
    }

    fn system(&mut self) {
        if !self.facts.systemd {
            self.error(
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
                    format!("the program '{tool}' is missing"),
                    "install it from the packages of your distribution",
                );
            }
        }
        for folder in &self.facts.read_only {
            let finding = format!("cannot write {folder}: the file system is mounted read-only");
            let hint = "mount it for writing, or use a host where it can be written";
            self.findings
                .push(Finding::new(self.name, true, finding, hint));
        }
        self.packages();
        let limit = self.cluster.system.max_clock_skew_seconds as f64;
        if self.facts.clock_ahead.abs() > limit {
            let ahead = self.facts.clock_ahead;
            let direction = if ahead > 0.0 { "ahead of" } else { "behind" };
            self.error(
                format!(
                    "its clock is {:.0} s {direction} the clock of this machine",
                    ahead.abs()
                ),
                "set the clock, or run a time server in this network: certificates depend on the time",
            );
        }
        if !self.facts.swap.is_empty() && !self.cluster.system.disable_swap {
            self.error(
                "swap is on, but spec.system.disableSwap is false",
                "run swapoff -a, or set spec.system.disableSwap: true",
            );
        }
        let failing = self.cluster.kubernetes.kubelet.extra_config["failCgroupV1"] != false;
        let new = self.cluster.kubernetes.version >= Version::new(1, 35, 0);
        if self.facts.cgroup == Some(Cgroup::V1) && new && failing {
            self.error(
                "uses cgroup v1, which kubelets since 1.35 refuse",
                "boot the host with cgroup v2, or set kubelet.extraConfig.failCgroupV1: false",
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
        let system = match known_as.is_empty() {
            true => self
                .facts
                .os
                .name
                .clone()
                .unwrap_or("its distribution".to_owned()),
            false => known_as.join(" or "),
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
                "correct internalAddress of the host in the cluster file",
            );
        }
        if !self.facts.default_route {
            self.warning(
                "has no default route",
                "add one, because service addresses need it: ip route add default via GATEWAY",
            );
        }
        if self.facts.nameserver.is_none() {
            self.warning(
                "/etc/resolv.conf has no name server",
                "add a nameserver line if pods resolve names outside the cluster",
            );
        }
        let findings = firewall::findings(self.cluster, self.name, self.facts);
        self.findings.extend(findings);
    }

    /// Finds lines of `/etc/hosts` that give a name of the cluster another address: the first line counts.
    fn names(&mut self) {
        let cluster = self.cluster;
        let mut names: Vec<(&str, Vec<IpAddr>)> = Vec::new();
        if cluster.registry.external.is_none() {
            let hosts = cluster.roles.registry.iter();
            let addresses = hosts.filter_map(|name| cluster.host(name));
            let addresses = addresses.map(|host| host.internal_address).collect();
            names.push((cluster.registry.host_name.as_str(), addresses));
        }
        let endpoint = &cluster.control_plane_endpoint;
        names.extend(
            endpoint
                .address
                .map(|address| (endpoint.host.as_str(), vec![address])),
        );
        for host in &cluster.hosts {
            // A host may have its own name on loopback, as Debian writes it.
            if host.name != *self.name {
                names.push((host.name.as_str(), vec![host.internal_address]));
            }
        }
        for (name, expected) in names {
            let mut entries = self.facts.hosts_entries.iter();
            let other = entries.find(|(address, entry)| {
                entry.eq_ignore_ascii_case(name)
                    && !expected.contains(address)
                    && expected
                        .iter()
                        .any(|one| one.is_ipv4() == address.is_ipv4())
            });
            if let Some((address, entry)) = other {
                let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
                self.error(
                    format!(
                        "/etc/hosts has the line '{address} {entry}', but the cluster file gives {name} the address {}",
                        expected.join(" or ")
                    ),
                    "remove the line from /etc/hosts: kubexm adds its own lines there",
                );
            }
        }
    }

    /// Finds what another etcd or another container runtime left, although it does not run.
    fn remains(&mut self) {
        let own = own_etcd(self.cluster, self.name).is_some();
        let stacked = matches!(self.cluster.etcd, Etcd::Kubeadm { .. })
            && self.cluster.is_control_plane(self.name);
        if stacked && !own && self.facts.existing.contains(OLD_ETCD) {
            self.error(
                format!("{OLD_ETCD} contains data of an etcd that kubexm did not install"),
                "move the folder if the data is not needed, or use another host",
            );
        }
        if !self.facts.runtimes.is_empty() {
            return;
        }
        let programs: Vec<&str> = RUNTIME_PROGRAMS
            .into_iter()
            .filter(|path| self.facts.existing.contains(*path))
            .collect();
        if !programs.is_empty() {
            self.warning(
                format!(
                    "has programs of a container runtime that does not run: {}",
                    programs.join(", ")
                ),
                "remove their packages: kubexm installs its own runtime in other directories, and an update of these \
                 packages may start theirs",
            );
        }
    }

    fn leftovers(&mut self) {
        if self.facts.receipt {
            return;
        }
        self.remains();
        if self.facts.kubernetes {
            self.error(
                "has files of a Kubernetes that kubexm did not install",
                "run kubeadm reset and remove the files, or use another host",
            );
        }
        // `kubeadm join` of a worker refuses a host with such a file, after the packages are installed.
        let worker_with_ca = !self.cluster.is_control_plane(self.name)
            && self.facts.authorities.contains_key(KUBERNETES_CA);
        if worker_with_ca && !self.facts.kubernetes {
            self.error(
                format!("has {KUBERNETES_CA} of a Kubernetes that kubexm did not install"),
                "remove the file, or use another host",
            );
        }
        if !self.facts.runtimes.is_empty() {
            self.error(
                "has a container runtime that kubexm did not install",
                "remove the runtime, or use another host: kubexm does not overwrite it",
            );
        }
        if let Some(data) = own_etcd(self.cluster, self.name).map(etcd_data)
            && self.facts.existing.contains(&data)
        {
            self.error(
                format!("{data} contains data of an etcd that kubexm did not install"),
                "move the folder if the data is not needed, or set etcd.dataDir to another folder",
            );
        }
        let listening = &self.facts.listening;
        let mut ports = vec![10250];
        if self.cluster.is_control_plane(self.name) {
            ports.extend([self.cluster.kubernetes.api_server_port, 10257, 10259]);
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
                "stop the program that listens on it: ss -ltnp shows its name",
            );
        }
    }
}

/// The data of an etcd that kubeadm or a package ran.
pub(crate) const OLD_ETCD: &str = "/var/lib/etcd/member";
/// Programs of container runtimes of packages.
pub(crate) const RUNTIME_PROGRAMS: [&str; 4] = [
    "/usr/bin/containerd",
    "/usr/bin/dockerd",
    "/usr/bin/crio",
    "/usr/bin/isulad",
];

/// The certificate of the Kubernetes CA on a node.
const KUBERNETES_CA: &str = "/etc/kubernetes/pki/ca.crt";

/// Reports hosts with the same machine-id, which are clones of one machine.
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
                what: format!("has the same machine-id as {other}: one is a clone of the other"),
                hint: "run rm /etc/machine-id && systemd-machine-id-setup, then reboot".to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
