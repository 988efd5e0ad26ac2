//! Clusters of both address families and of IPv6 alone: how each file states networks and addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubexm_bundle::Blobs;
use kubexm_config::parse_cluster;
use kubexm_types::Version;

use super::everything;
use crate::example::InMemory;

const PLUGINS: [&str; 4] = [
    "plugin: flannel",
    "plugin: flannel, flannel: {backend: host-gw}",
    "plugin: bridge",
    "plugin: none",
];
const MODES: [&str; 3] = ["iptables", "nftables", "ipvs"];

/// The networks and the hosts' addresses of a cluster.
struct Families {
    pods: &'static str,
    services: &'static str,
    hosts: [&'static str; 2],
}

const IPV4_FIRST: Families = Families {
    pods: "10.244.0.0/16,fd00:10:244::/56",
    services: "10.96.0.0/12,fd00:10:96::/112",
    hosts: ["192.0.2.11,2001:db8::11", "192.0.2.12,2001:db8::12"],
};
const IPV6_FIRST: Families = Families {
    pods: "fd00:10:244::/56,10.244.0.0/16",
    services: "fd00:10:96::/112,10.96.0.0/12",
    hosts: ["2001:db8::11,192.0.2.11", "2001:db8::12,192.0.2.12"],
};
const IPV6: Families = Families {
    pods: "fd00:10:244::/56",
    services: "fd00:10:96::/112",
    hosts: ["2001:db8::11", "2001:db8::12"],
};

impl Families {
    fn yaml(&self, version: &Version, kind: &str, mode: &str, plugin: &str) -> String {
        let [one, two] = self.hosts;
        let etcd = match kind {
            "systemd" => "  etcd: {type: systemd}\n",
            _ => "",
        };
        format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n    \
             - {{name: node1, address: node1.example, internalAddress: \"{one}\"}}\n    \
             - {{name: node2, address: node2.example, internalAddress: \"{two}\"}}\n  \
             roleGroups: {{control-plane: [node1], worker: [node2]}}\n  \
             kubernetes: {{version: v{version}, type: {kind}, kubeProxy: {{mode: {mode}}}}}\n{etcd}  \
             network: {{{plugin}, podCIDR: \"{}\", serviceCIDR: \"{}\"}}\n",
            self.pods, self.services,
        )
    }
}

/// Returns every combination of address families, type, plugin and mode of kube-proxy.
pub fn yamls(version: &Version) -> Vec<String> {
    let mut all = Vec::new();
    for families in [IPV4_FIRST, IPV6_FIRST, IPV6] {
        for kind in super::KINDS {
            for plugin in PLUGINS {
                for mode in MODES {
                    all.push(families.yaml(version, kind, mode, plugin));
                }
            }
        }
    }
    all
}

/// Returns every file of a cluster, by host and path.
fn files(families: &Families, kind: &str, plugin: &str) -> BTreeMap<String, String> {
    let version = Version::new(1, 36, 3);
    let text = families.yaml(&version, kind, "nftables", plugin);
    let cluster = parse_cluster("cluster.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
    let lock = everything::lock(&[version]);
    let blobs: Arc<dyn Blobs> = Arc::new(InMemory::default());
    let inputs = kubexm_deploy::Inputs::assumed(&cluster, &lock, blobs);
    let plan = kubexm_deploy::plan(&inputs).unwrap().plan;
    let mut files = BTreeMap::new();
    for (host, of_host) in kubexm_deploy::rendered(&plan) {
        for file in of_host {
            files.insert(format!("{host}:{}", file.path), file.content);
        }
    }
    files
}

fn assert_has(files: &BTreeMap<String, String>, place: &str, texts: &[&str]) {
    let content = files
        .get(place)
        .unwrap_or_else(|| panic!("{place} is not among {:?}", files.keys()));
    for text in texts {
        assert!(content.contains(text), "{place} has no {text}:\n{content}");
    }
}

#[test]
fn files_of_kubeadm_have_both_families() {
    let files = files(&IPV4_FIRST, "kubeadm", "plugin: flannel");
    assert_has(
        &files,
        "node1:/etc/kubexm/kubeadm-init.yaml",
        &[
            "advertiseAddress: \"192.0.2.11\"",
            "podSubnet: \"10.244.0.0/16,fd00:10:244::/56\"",
            "serviceSubnet: \"10.96.0.0/12,fd00:10:96::/112\"",
            "certSANs:\n    - \"fd00:10:96::1\"\n",
            "name: \"node-cidr-mask-size-ipv4\"\n      value: \"24\"",
            "name: \"node-cidr-mask-size-ipv6\"\n      value: \"64\"",
            "name: \"node-ip\"\n      value: \"192.0.2.11,2001:db8::11\"",
            "clusterCIDR: \"10.244.0.0/16,fd00:10:244::/56\"",
            "clusterDNS:\n  - \"10.96.0.10\"\ncluster",
        ],
    );
    assert_has(
        &files,
        "node2:/run/kubexm/kubeadm-join.yaml",
        &["value: \"192.0.2.12,2001:db8::12\""],
    );
    assert_has(
        &files,
        "node1:/etc/kubexm/flannel.yaml",
        &[
            "\"Network\": \"10.244.0.0/16\", \"EnableIPv6\": true, \"IPv6Network\": \"fd00:10:244::/56\",\n",
        ],
    );
    let sysctl = "net.ipv6.conf.all.forwarding = 1\n";
    assert_has(&files, "node2:/etc/sysctl.d/90-kubexm.conf", &[sysctl]);
}

#[test]
fn files_of_units_have_both_families() {
    let files = files(&IPV4_FIRST, "systemd", "plugin: bridge");
    let units = "node1:/etc/systemd/system";
    let both = "10.96.0.0/12,fd00:10:96::/112";
    let services = format!("--service-cluster-ip-range={both}");
    assert_has(
        &files,
        &format!("{units}/kube-apiserver.service"),
        &[&services],
    );
    assert_has(
        &files,
        &format!("{units}/kube-controller-manager.service"),
        &[
            &services,
            "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56",
            "--node-cidr-mask-size-ipv4=24",
            "--node-cidr-mask-size-ipv6=64",
        ],
    );
    let addresses = "--node-ip=192.0.2.11,2001:db8::11";
    assert_has(&files, &format!("{units}/kubelet.service"), &[addresses]);
    assert_has(
        &files,
        "node1:/etc/kubernetes/kube-proxy.yaml",
        &["clusterCIDR: \"10.244.0.0/16,fd00:10:244::/56\""],
    );
    assert_has(
        &files,
        "node1:/etc/cni/net.d/10-kubexm-bridge.conflist",
        &[
            "\"ranges\": [[{\"subnet\": \"<IPv4 pod subnet of node1>\"}], [{\"subnet\": \"<IPv6 pod subnet of node1>\"}]]",
        ],
    );
    assert_has(
        &files,
        "node1:/etc/kubexm/pod-routes.conf",
        &[
            "\npods 10.244.0.0/16\npods fd00:10:244::/56\n",
            "\nroute <IPv4 pod subnet of node2> <IPv4 address of node2>\nroute <IPv6 pod subnet of node2> <IPv6 address of node2>",
        ],
    );
}

#[test]
fn first_network_decides_the_address_of_the_api_server_and_of_dns() {
    let files = files(&IPV6_FIRST, "kubeadm", "plugin: flannel");
    assert_has(
        &files,
        "node1:/etc/kubexm/kubeadm-init.yaml",
        &[
            "advertiseAddress: \"2001:db8::11\"",
            "controlPlaneEndpoint: \"[2001:db8::11]:6443\"",
            "certSANs:\n    - \"10.96.0.1\"\n",
            "clusterDNS:\n  - \"fd00:10:96::a\"\ncluster",
            "value: \"2001:db8::11,192.0.2.11\"",
        ],
    );
}

#[test]
fn cluster_of_ipv6_has_no_address_of_ipv4() {
    let files = files(&IPV6, "kubeadm", "plugin: flannel");
    let network =
        "\"EnableIPv4\": false, \"EnableIPv6\": true, \"IPv6Network\": \"fd00:10:244::/56\",\n";
    assert_has(&files, "node1:/etc/kubexm/flannel.yaml", &[network]);
    let config = &files["node1:/etc/kubexm/kubeadm-init.yaml"];
    assert!(config.contains("podSubnet: \"fd00:10:244::/56\""));
    for absent in ["10.244", "10.96", "node-cidr-mask-size", "192.0.2"] {
        assert!(!config.contains(absent), "{absent}: {config}");
    }
}
