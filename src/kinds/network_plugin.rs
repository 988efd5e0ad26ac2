//! Network plugins: their settings in `spec.network`, and what kubexm knows of each on hosts. `network` of the crate `deploy`
//! installs them.

use crate::named_kinds;
use crate::ports::{self, Port};
use crate::{Content, Directory};

named_kinds! {
    /// Network plugins: values of `spec.network.plugin`.
    PluginKind {
        Flannel = "flannel",
        Calico = "calico",
        Cilium = "cilium",
        Bridge = "bridge",
        /// No plugin.
        None = "none",
    }
}

/// The unit that sets the routes to the pods of other nodes.
pub const POD_ROUTES_UNIT: &str = "kubexm-pod-routes.service";

/// What kubexm knows of a network plugin.
#[derive(Debug, Clone, Copy)]
pub struct PluginProperties {
    /// Whether a real host has run it. Otherwise it is experimental.
    pub is_proven: bool,
    /// Whether kubexm installs it for IPv6, too.
    pub has_ipv6: bool,
    /// Whether a bridge on each node has the addresses of pods, so that it has to follow the pod subnet of the node.
    pub has_bridge: bool,
    /// The namespaces of its pods besides `kube-system`. The pods need the host.
    pub namespaces: &'static [&'static str],
    /// Namespaces of other pods of its project.
    pub other_namespaces: &'static [&'static str],
    /// The beginnings of the paths of its pods without which a new node has no network, as in `kube-system/example-`.
    pub node_pods: &'static [&'static str],
    /// The beginnings of the names of its images.
    pub repositories: &'static [&'static str],
    /// The beginning of the name of its file in `/etc/cni/net.d`, by which the runtimes find it.
    pub cni_file: Option<&'static str>,
    /// The network of host-local in which only pods have addresses.
    pub lease_network: Option<&'static str>,
    /// Devices that carry packets to other nodes over UDP, each with its port.
    pub overlays: &'static [(&'static str, u16)],
    /// Interfaces that it creates, as patterns of NetworkManager.
    pub interfaces: &'static [&'static str],
    /// Directories and files that its pods create on nodes. A reset removes them.
    pub directories: &'static [Directory],
    /// Patterns of the files that it leaves in `/etc/cni`, as in [`Content::patterns`].
    pub cni_files: &'static [&'static str],
    /// The beginnings of the names of its chains of iptables and of its tables of nftables.
    pub chains: &'static [&'static str],
    /// The argument of `network/remove-leftovers.sh` that removes its devices, routes and rules.
    pub leftovers: Option<&'static str>,
    /// Its unit on every node.
    pub unit: Option<&'static str>,
    /// The file by which the facts of a host tell that it was installed.
    pub found_by: Option<&'static str>,
    /// Extended regular expression of the lines of that file that state how it carries packets, or precede such a line; empty if
    /// none does.
    pub transport_lines: &'static str,
}

const NONE: PluginProperties = PluginProperties {
    is_proven: true,
    has_ipv6: true,
    has_bridge: false,
    namespaces: &[],
    other_namespaces: &[],
    node_pods: &[],
    repositories: &[],
    cni_file: None,
    lease_network: None,
    overlays: &[],
    interfaces: &[],
    directories: &[],
    cni_files: &[],
    chains: &[],
    leftovers: None,
    unit: None,
    found_by: None,
    transport_lines: "",
};

const FLANNEL: PluginProperties = PluginProperties {
    is_proven: true,
    has_ipv6: true,
    has_bridge: true,
    namespaces: &["kube-flannel"],
    other_namespaces: &[],
    node_pods: &["kube-flannel/kube-flannel-ds-"],
    repositories: &["ghcr.io/flannel-io/"],
    cni_file: Some("10-flannel."),
    lease_network: Some("cbr0"),
    overlays: &[("flannel.1", ports::VXLAN)],
    interfaces: &["flannel*"],
    directories: &[
        Directory::volatile("/run/flannel"),
        Directory::file("/etc/cni/net.d/10-flannel.conflist"),
        Directory::file("/opt/cni/bin/flannel"),
    ],
    cni_files: &["net.d/10-flannel.conflist"],
    chains: &["FLANNEL"],
    // Those of `kubernetes` contain them.
    leftovers: None,
    unit: None,
    found_by: Some("/etc/kubexm/flannel.yaml"),
    transport_lines: "\"Type\": \"",
};

const CALICO: PluginProperties = PluginProperties {
    is_proven: false,
    has_ipv6: false,
    has_bridge: false,
    namespaces: &["calico-system", "tigera-operator"],
    other_namespaces: &["calico-apiserver"],
    node_pods: &["kube-system/calico-node-"],
    repositories: &["quay.io/calico/", "quay.io/tigera/"],
    cni_file: Some("10-calico."),
    lease_network: None,
    overlays: &[("vxlan.calico", ports::VXLAN_STANDARD)],
    interfaces: &["cali*", "tunl*", "vxlan.calico"],
    directories: &[
        Directory::new(
            "/var/lib/calico",
            Content::marked("755", &["nodename", "mtu"]),
        ),
        Directory::new("/var/log/calico", Content::marked("755", &["cni"])),
        Directory::volatile("/run/calico"),
        Directory::volatile("/run/nodeagent"),
        Directory::file("/etc/cni/net.d/10-calico.conflist"),
        Directory::file("/etc/cni/net.d/calico-kubeconfig"),
        Directory::file("/opt/cni/bin/calico"),
        Directory::file("/opt/cni/bin/calico-ipam"),
    ],
    cni_files: &[
        "net.d/10-calico.conflist",
        "net.d/calico-kubeconfig",
        "net.d/calico-tls",
    ],
    chains: &["cali"],
    leftovers: Some("calico"),
    unit: None,
    found_by: Some("/etc/kubexm/calico.yaml"),
    transport_lines: "CALICO_IPV4POOL_",
};

const CILIUM: PluginProperties = PluginProperties {
    is_proven: false,
    has_ipv6: false,
    has_bridge: false,
    namespaces: &[],
    other_namespaces: &["cilium", "cilium-secrets"],
    node_pods: &["kube-system/cilium-"],
    repositories: &["quay.io/cilium/"],
    cni_file: Some("05-cilium."),
    lease_network: None,
    overlays: &[
        ("cilium_vxlan", ports::VXLAN),
        ("cilium_geneve", ports::GENEVE),
    ],
    interfaces: &["cilium*", "lxc*"],
    directories: &[
        Directory::volatile("/run/cilium"),
        Directory::new(
            "/var/lib/cilium",
            Content::marked("755", &["bpf", "clustermesh", "state"]),
        ),
        Directory::file("/etc/sysctl.d/99-zzz-override_cilium.conf"),
        Directory::file("/etc/cni/net.d/05-cilium.conflist"),
        Directory::file("/opt/cni/bin/cilium-cni"),
    ],
    // Its pods rename the files of others to `*.cilium_bak`. The script of `leftovers` gives these their names back.
    cni_files: &["net.d/05-cilium.conf*"],
    chains: &["CILIUM"],
    leftovers: Some("cilium"),
    unit: None,
    found_by: Some("/etc/kubexm/cilium.yaml"),
    transport_lines: "routing-mode|tunnel-protocol",
};

const BRIDGE: PluginProperties = PluginProperties {
    is_proven: true,
    has_ipv6: true,
    has_bridge: true,
    namespaces: &[],
    other_namespaces: &[],
    node_pods: &[],
    repositories: &[],
    cni_file: Some("10-kubexm-"),
    lease_network: Some("kubexm-bridge"),
    overlays: &[],
    interfaces: &[],
    directories: &[],
    cni_files: &["net.d/10-kubexm-bridge.conflist"],
    chains: &[],
    leftovers: Some("bridge"),
    unit: Some(POD_ROUTES_UNIT),
    found_by: Some("/etc/cni/net.d/10-kubexm-bridge.conflist"),
    transport_lines: "",
};

impl PluginKind {
    /// Returns what kubexm knows of the plugin.
    pub const fn properties(self) -> &'static PluginProperties {
        match self {
            Self::Flannel => &FLANNEL,
            Self::Calico => &CALICO,
            Self::Cilium => &CILIUM,
            Self::Bridge => &BRIDGE,
            Self::None => &NONE,
        }
    }

    /// Returns what kubexm knows of all plugins.
    pub fn all_properties() -> impl Iterator<Item = &'static PluginProperties> {
        Self::ALL.iter().map(|kind| kind.properties())
    }
}

impl PluginProperties {
    /// Returns the paths of its directories and files.
    pub fn paths(&self) -> Vec<&'static str> {
        self.directories.iter().map(|one| one.path).collect()
    }
}

/// A network plugin with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPlugin {
    Flannel(FlannelBackend),
    Calico(Calico),
    Cilium(Cilium),
    /// A bridge on each node, with routes to the pods of other nodes. All hosts are on one layer-2 network.
    Bridge,
    /// No plugin: nodes stay NotReady until the user installs one.
    None,
}

/// How flannel sends packets to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlannelBackend {
    /// VXLAN, over any network.
    Vxlan,
    /// Plain routes; all hosts are on one layer-2 network.
    HostGw,
}

/// Settings of Calico.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calico {
    pub encapsulation: Encapsulation,
    /// MTU of pods in bytes; `None` if Calico detects it.
    pub mtu: Option<u16>,
}

/// Settings of Cilium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cilium {
    pub routing: CiliumRouting,
    /// MTU of pods in bytes; `None` if Cilium detects it.
    pub mtu: Option<u16>,
}

/// How Cilium sends packets to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CiliumRouting {
    /// VXLAN, over any network.
    Vxlan,
    /// Geneve, over any network.
    Geneve,
    /// Plain routes; all hosts are on one layer-2 network.
    Native,
}

impl CiliumRouting {
    pub const ALL: [Self; 3] = [Self::Vxlan, Self::Geneve, Self::Native];

    /// Returns the name in cluster files. For tunnels it is also the name that Cilium uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Native => "native",
        }
    }
}

/// How Calico sends packets to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulation {
    /// VXLAN, over any network.
    Vxlan,
    /// IP in IP, with BGP between nodes.
    Ipip,
    /// Plain routes, with BGP between nodes. All hosts are on one layer-2 network, or the routers use BGP.
    None,
}

impl Encapsulation {
    /// Returns the name in cluster files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Ipip => "ipip",
            Self::None => "none",
        }
    }
}

impl NetworkPlugin {
    /// Returns the plugin without its settings.
    pub fn kind(self) -> PluginKind {
        match self {
            Self::Flannel(_) => PluginKind::Flannel,
            Self::Calico(_) => PluginKind::Calico,
            Self::Cilium(_) => PluginKind::Cilium,
            Self::Bridge => PluginKind::Bridge,
            Self::None => PluginKind::None,
        }
    }

    /// Returns the name in cluster files.
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// Returns what kubexm knows of the plugin.
    pub fn properties(self) -> &'static PluginProperties {
        self.kind().properties()
    }

    /// Returns whether static routes lead to the pods of other nodes, so that all nodes must share a network.
    pub fn uses_static_routes(self) -> bool {
        match self {
            Self::Bridge | Self::Flannel(FlannelBackend::HostGw) => true,
            Self::Cilium(cilium) => cilium.routing == CiliumRouting::Native,
            // Routers that speak BGP may forward the packets.
            Self::Calico(_) | Self::Flannel(_) | Self::None => false,
        }
    }

    /// Returns the ports of nodes that the plugin uses on other nodes, as in its documentation.
    pub fn ports(self) -> Vec<Port> {
        let vxlan = Port::Udp(ports::VXLAN);
        let health = Port::Tcp(ports::CILIUM_HEALTH);
        let typha = Port::Tcp(ports::TYPHA);
        match self {
            Self::Flannel(FlannelBackend::Vxlan) => vec![vxlan],
            Self::Calico(calico) => match calico.encapsulation {
                Encapsulation::Vxlan => vec![Port::Udp(ports::VXLAN_STANDARD), typha],
                Encapsulation::Ipip | Encapsulation::None => vec![Port::Tcp(ports::BGP), typha],
            },
            Self::Cilium(cilium) => match cilium.routing {
                CiliumRouting::Vxlan => vec![vxlan, health],
                CiliumRouting::Geneve => vec![Port::Udp(ports::GENEVE), health],
                CiliumRouting::Native => vec![health],
            },
            Self::Flannel(FlannelBackend::HostGw) | Self::Bridge | Self::None => Vec::new(),
        }
    }
}

impl FlannelBackend {
    /// Returns the name that flannel uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::HostGw => "host-gw",
        }
    }
}
