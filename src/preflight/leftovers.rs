//! Finds what other installations left on a host.

use crate::checker::Checker;
use crate::disk_space::{etcd_data, own_etcd};
use kubexm_config::cluster::{Etcd, LoadBalancer, RuntimeKind};
use kubexm_config::ports;
use kubexm_types::FindingKind;

/// The data of an etcd that kubeadm or a package ran.
pub(crate) const OLD_ETCD: &str = "/var/lib/etcd/member";
/// Returns the programs of container runtimes of packages.
pub(crate) fn runtime_programs() -> impl Iterator<Item = &'static str> {
    let all = RuntimeKind::ALL.iter();
    all.map(|kind| kind.properties().packaged)
}

/// The directory of the certificates of a node.
const PKI: &str = "/etc/kubernetes/pki/";

impl Checker<'_> {
    /// Finds what another etcd or another container runtime left, although it does not run.
    fn remains(&mut self) {
        let own = own_etcd(self.cluster, self.name).is_some();
        let stacked = matches!(self.cluster.etcd, Etcd::Kubeadm { .. })
            && self.cluster.is_control_plane(self.name);
        if stacked && !own && self.facts.existing.contains(OLD_ETCD) {
            self.error(
                FindingKind::Leftovers,
                format!("{OLD_ETCD} contains data of an etcd that kubexm did not install"),
                "move the folder if the data is not needed, or use another host",
            );
        }
        if !self.facts.runtimes.is_empty() {
            return;
        }
        let programs: Vec<&str> = runtime_programs()
            .filter(|path| self.facts.existing.contains(*path))
            .collect();
        if !programs.is_empty() {
            self.warning(
                FindingKind::Leftovers,
                format!(
                    "has programs of a container runtime that does not run: {}",
                    programs.join(", ")
                ),
                "remove their packages: kubexm installs its own runtime in other directories, and an update of these \
                 packages may start theirs",
            );
        }
    }

    /// Finds other clusters and runtimes, and programs that listen on ports of the cluster.
    pub(super) fn leftovers(&mut self) {
        if self.facts.receipt {
            return;
        }
        self.remains();
        if self.facts.kubernetes {
            self.error(
                FindingKind::Leftovers,
                "has files of a Kubernetes that kubexm did not install",
                "run kubeadm reset and remove the files, or use another host",
            );
        }
        // `kubeadm join` of a worker refuses a host with a CA, after the packages are installed. `kubeadm init` and programs take
        // over what they find.
        let certificates = self.facts.certificates.keys();
        let found: Vec<&str> = certificates
            .map(String::as_str)
            .filter(|path| path.starts_with(PKI))
            .collect();
        if let ([first, more @ ..], false) = (&found[..], self.facts.kubernetes) {
            let others = match more.len() {
                0 => String::new(),
                1 => " and 1 other file".to_owned(),
                number => format!(" and {number} other files"),
            };
            self.error(
                FindingKind::Leftovers,
                format!("has {first}{others} of a Kubernetes that kubexm did not install"),
                "remove the files in /etc/kubernetes/pki, or use another host; a CA of the site belongs in \
                 kubernetes.certificates.ca",
            );
        }
        if !self.facts.runtimes.is_empty() {
            self.error(
                FindingKind::Leftovers,
                "has a container runtime that kubexm did not install",
                "remove the runtime, or use another host: kubexm does not overwrite it",
            );
        }
        if let Some(data) = own_etcd(self.cluster, self.name).map(etcd_data)
            && self.facts.existing.contains(&data)
        {
            self.error(
                FindingKind::Leftovers,
                format!("{data} contains data of an etcd that kubexm did not install"),
                "move the folder if the data is not needed, or set etcd.dataDir to another folder",
            );
        }
        let listening = &self.facts.listening;
        let mut ports = vec![ports::KUBELET];
        if let Some(port) = self.cluster.api_server_port(self.name) {
            ports.extend([port, ports::CONTROLLER_MANAGER, ports::SCHEDULER]);
        }
        if !matches!(self.cluster.etcd, Etcd::External { .. })
            && self.cluster.roles.etcd.contains(self.name)
        {
            ports.extend([ports::ETCD_CLIENT, ports::ETCD_PEER, ports::ETCD_METRICS]);
        }
        if self.cluster.roles.registry.contains(self.name) {
            ports.push(self.cluster.registry.port);
        }
        let endpoint = &self.cluster.control_plane_endpoint;
        // Pods of a load balancer do not listen.
        let has_pods = matches!(
            self.cluster.high_availability.kind,
            LoadBalancer::Pods { .. }
        );
        if self.cluster.runs_load_balancer(self.name) && !has_pods {
            ports.push(endpoint.port);
        }
        for port in ports.into_iter().filter(|port| listening.contains(port)) {
            self.error(
                FindingKind::Ports,
                format!("port {port} is in use"),
                "stop the program that listens on it: ss -ltnp shows its name",
            );
        }
    }
}
