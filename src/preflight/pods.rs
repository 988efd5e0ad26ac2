//! Checks what the network of pods and services requires of a host.

use crate::checker::Checker;
use kubexm_config::cluster::{CacheInterface, KubernetesKind, OfFamily, ProxyMode};
use kubexm_host::facts::{Module, Tool};
use kubexm_types::FindingKind;

/// kube-proxy's nftables mode needs Linux 5.13
/// (<https://kubernetes.io/docs/reference/networking/virtual-ips/#proxy-mode-nftables>).
const NFTABLES_KERNEL: (u32, u32) = (5, 13);

impl Checker<'_> {
    pub(super) fn pods(&mut self) {
        if !self.cluster.is_node(self.name) {
            return;
        }
        self.static_routes();
        self.kube_proxy();
        self.dns_cache();
    }

    /// Checks that the host shares a network with every other node, if the plugin uses static routes: the
    /// gateway of a route must be on a network of the host.
    fn static_routes(&mut self) {
        let plugin = self.cluster.network.plugin;
        let own = &self.facts.networks;
        if !plugin.uses_static_routes() {
            return;
        }
        let name = self.name;
        let nodes = self.cluster.nodes().into_iter();
        let others = nodes.filter(|node| node.name != *name);
        for (node, address) in others.flat_map(|node| {
            let addresses = node.internal_addresses.iter();
            addresses.map(move |address| (node, address))
        }) {
            let mut same_family = own
                .iter()
                .filter(|net| net.family() == address.family())
                .peekable();
            let is_known = same_family.peek().is_some();
            if is_known && !same_family.any(|net| net.contains(&address)) {
                let what = format!(
                    "shares no network with {} ({address}), but {} uses static routes",
                    node.name,
                    plugin.name()
                );
                let hint = "use a plugin with an overlay network, such as flannel with its backend vxlan, or \
                            correct internalAddress in the cluster file";
                self.error(FindingKind::Routes, what, hint);
            }
        }
    }

    fn kube_proxy(&mut self) {
        match self.cluster.kubernetes.kube_proxy.mode {
            ProxyMode::Iptables => {}
            ProxyMode::Nftables => self.nftables(),
            ProxyMode::Ipvs => self.ipvs(),
        }
    }

    fn nftables(&mut self) {
        let kernel = &self.facts.kernel;
        if version_of(kernel).is_some_and(|version| version < NFTABLES_KERNEL) {
            let what = format!("has Linux {kernel}, but kube-proxy's nftables mode needs 5.13");
            self.error(
                FindingKind::KubeProxy,
                what,
                "set kubeProxy.mode: iptables, or install a newer kernel",
            );
        }
        if self.facts.tools.contains(&Tool::Nft) || self.gets_packages() {
            return;
        }
        let hint = "install nftables, or add it to spec.packages of the bundle manifest";
        match self.cluster.kubernetes.kind {
            // kubeadm runs kube-proxy in an image that contains nft.
            KubernetesKind::Kubeadm => self.warning(
                FindingKind::KubeProxy,
                "the program 'nft' is missing, so a reset cannot remove kube-proxy's rules",
                hint,
            ),
            KubernetesKind::Systemd => {
                self.error(
                    FindingKind::KubeProxy,
                    "the program 'nft' is missing, which kube-proxy runs",
                    hint,
                );
            }
        }
    }

    fn ipvs(&mut self) {
        let modules = &self.facts.modules;
        let present: Vec<&str> = modules.iter().map(|module| module.name()).collect();
        let mut missing = self.cluster.kubernetes.ipvs_modules();
        missing.retain(|module| !present.contains(&module.as_str()));
        if !missing.is_empty() {
            let what = format!(
                "its kernel does not have {}, which kube-proxy's ipvs mode needs",
                missing.join(", ")
            );
            let hint = "set kubeProxy.mode: nftables, or install the kernel modules";
            self.error(FindingKind::KubeProxy, what, hint);
        }
        if !self.facts.tools.contains(&Tool::Ipset) && !self.gets_packages() {
            let hint = "install ipset, or add it to spec.packages of the bundle manifest";
            self.error(
                FindingKind::KubeProxy,
                "the program 'ipset' is missing, which kube-proxy's ipvs mode needs",
                hint,
            );
        }
        if self.cluster.roles.control_plane.first() == Some(self.name) {
            self.warning(
                FindingKind::KubeProxy,
                "kubeProxy.mode is ipvs, which Kubernetes deprecated in 1.35 and will remove",
                "set kubeProxy.mode: nftables, its successor",
            );
        }
    }

    fn dns_cache(&mut self) {
        let cache = self.cluster.dns.node_local.as_ref();
        let dummy = cache.is_some_and(|cache| cache.interface == CacheInterface::Dummy);
        if dummy && !self.facts.modules.contains(&Module::Dummy) {
            self.error(
                FindingKind::DnsCache,
                "its kernel does not have dummy interfaces, on which the DNS cache listens",
                "set dns.nodeLocal.interface: loopback",
            );
        }
    }

    /// Returns whether kubexm installs packages of the bundle on the host.
    fn gets_packages(&self) -> bool {
        let names = self.facts.releases();
        self.cluster.system.install_packages
            && names.iter().any(|name| self.offer.releases.contains(name))
    }
}

/// Returns major and minor version of a kernel's release, as in `6.1.0-28-amd64`.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use crate::{Offer, check};
    use kubexm_config::example::cluster;
    use kubexm_host::facts::{Facts, Module, Tool};

    /// Returns the findings for node1 with these facts, in a cluster with these sections.
    fn findings(kubernetes: &str, sections: &str, facts: Facts) -> String {
        let mut cluster = cluster(kubernetes, sections);
        cluster.hosts[1].internal_addresses = IpAddr::from([198, 51, 100, 12]).into();
        let offer = Offer {
            carried: BTreeMap::new(),
            registry_kib: 0,
            releases: Vec::new(),
            runtime_dir: "/var/lib/containerd".to_owned(),
        };
        let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
        let found = check(&cluster, &facts, &offer);
        found.iter().map(|finding| format!("{finding}\n")).collect()
    }

    /// Returns the findings that a host without facts and a cluster without the sections do not have.
    fn added(kubernetes: &str, sections: &str, facts: Facts) -> String {
        let plain = findings("", "", Facts::default());
        let known: Vec<&str> = plain.lines().collect();
        let found = findings(kubernetes, sections, facts);
        let lines = found.lines().filter(|line| !known.contains(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn static_routes_require_one_network() {
        let network = |text: &str| Facts {
            networks: vec![text.parse().unwrap()],
            ..Facts::default()
        };
        let bridge = "network: {plugin: bridge}";
        let apart = added("", bridge, network("192.0.2.0/24"));
        insta::assert_snapshot!(apart, @"
        node1: shares no network with node2 (198.51.100.12), but bridge uses static routes
          hint: use a plugin with an overlay network, such as flannel with its backend vxlan, or correct internalAddress in the cluster file
        ");
        let together = findings("", bridge, network("198.51.100.0/24"));
        assert!(!together.contains("shares no network"), "{together}");
    }

    #[test]
    fn kernel_must_have_the_modules_of_kube_proxy_and_dns_cache() {
        let ipvs = "kubeProxy: {mode: ipvs}";
        let one = Facts {
            modules: [Module::IpVs].into(),
            ..Facts::default()
        };
        let found = added(ipvs, "", one);
        insta::assert_snapshot!(found, @"
        node1: kubeProxy.mode is ipvs, which Kubernetes deprecated in 1.35 and will remove
          hint: set kubeProxy.mode: nftables, its successor
        node1: its kernel does not have ip_vs_rr, ip_vs_wrr, ip_vs_sh, which kube-proxy's ipvs mode needs
          hint: set kubeProxy.mode: nftables, or install the kernel modules
        node1: the program 'ipset' is missing, which kube-proxy's ipvs mode needs
          hint: install ipset, or add it to spec.packages of the bundle manifest
        ");
        let least = "kubeProxy: {mode: ipvs, extraConfig: {ipvs: {scheduler: lc}}}";
        let found = added(least, "", Facts::default());
        assert!(found.contains("ip_vs_sh, ip_vs_lc, which"), "{found}");
        let nftables = "kubeProxy: {mode: nftables}";
        let with = |kernel: &str, tools: &[Tool]| Facts {
            kernel: kernel.to_owned(),
            tools: tools.iter().copied().collect(),
            ..Facts::default()
        };
        let found = added(nftables, "", with("5.10.0-8-amd64", &[]));
        insta::assert_snapshot!(found, @"
        node1: the program 'nft' is missing, so a reset cannot remove kube-proxy's rules
          hint: install nftables, or add it to spec.packages of the bundle manifest
        node1: has Linux 5.10.0-8-amd64, but kube-proxy's nftables mode needs 5.13
          hint: set kubeProxy.mode: iptables, or install a newer kernel
        ");
        let found = findings(nftables, "", with("6.1.0-8-amd64", &[Tool::Nft]));
        assert!(!found.contains("nft"), "{found}");
        let cache = "dns: {nodeLocal: {}}";
        insta::assert_snapshot!(added("", cache, Facts::default()), @"
        node1: its kernel does not have dummy interfaces, on which the DNS cache listens
          hint: set dns.nodeLocal.interface: loopback
        ");
    }
}
