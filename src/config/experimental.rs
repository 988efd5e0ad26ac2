//! Settings that no test has run on a real host.
//!
//! The list is compared with the marks (`x-experimental`) in the JSON schemas, and with the page "What is
//! proven" of the book.

use crate::cluster::{
    CgroupDriver, Cluster, Etcd, IpFamily, LoadBalancer, PluginKind, ProxyMode, RuntimeKind,
};
use kubexm_types::Arch;

/// An experimental setting of a cluster file.
struct Experimental {
    /// Path of the field, as in the JSON schema.
    field: &'static str,
    /// The experimental value, or a description of the experimental values.
    value: &'static str,
    /// Returns true if a cluster file selects the setting.
    is_selected: fn(&Cluster) -> bool,
}

/// The experimental settings of cluster files, besides [`kinds`].
const CLUSTER: [Experimental; 7] = [
    Experimental {
        field: "spec.hosts[].arch",
        value: "arm64",
        is_selected: |cluster| cluster.hosts.iter().any(|h| h.arch == Some(Arch::Arm64)),
    },
    Experimental {
        field: "spec.highAvailability.type",
        value: "with IPv6",
        is_selected: balances_ipv6,
    },
    Experimental {
        field: "spec.kubernetes.kubeProxy.mode",
        value: "ipvs",
        is_selected: |cluster| cluster.kubernetes.kube_proxy.mode == ProxyMode::Ipvs,
    },
    Experimental {
        field: "spec.containerRuntime.type",
        value: "cri-o with crun",
        is_selected: runs_crun,
    },
    Experimental {
        field: "spec.containerRuntime.cgroupDriver",
        value: "cgroupfs",
        is_selected: |cluster| cluster.runtime.cgroup_driver == CgroupDriver::Cgroupfs,
    },
    Experimental {
        field: "spec.etcd.lockMemory",
        value: "true",
        is_selected: |cluster| {
            matches!(
                cluster.etcd,
                Etcd::Systemd {
                    lock_memory: true,
                    ..
                }
            )
        },
    },
    Experimental {
        field: "spec.dns.nodeLocal",
        value: "node-cache",
        is_selected: |cluster| cluster.dns.node_local.is_some(),
    },
];

const RUNTIME: &str = "spec.containerRuntime.type";
const PLUGIN: &str = "spec.network.plugin";

/// Returns the kinds that no real host has run, as field and value.
fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let runtimes = RuntimeKind::ALL.iter();
    let runtimes = runtimes.filter(|kind| !kind.properties().is_proven);
    let plugins = PluginKind::ALL.iter();
    let plugins = plugins.filter(|kind| !kind.properties().is_proven);
    let runtimes = runtimes.map(|kind| (RUNTIME, kind.name()));
    runtimes.chain(plugins.map(|kind| (PLUGIN, kind.name())))
}

/// Returns the experimental settings of cluster files, as field and value.
pub(crate) fn of_clusters() -> impl Iterator<Item = (&'static str, &'static str)> {
    let settings = CLUSTER.iter().map(|one| (one.field, one.value));
    kinds().chain(settings)
}

/// The experimental settings of bundle manifests, as field and value.
pub const MANIFEST: [(&str, &str); 2] = [
    ("spec.packages[].distribution", "all except debian"),
    ("spec.packages[].type", "dnf"),
];

/// Returns true if CRI-O runs containers with crun, which is the default.
fn runs_crun(cluster: &Cluster) -> bool {
    let chosen = &cluster.runtime.extra_config["crio"]["runtime"]["default_runtime"];
    cluster.runtime.kind == RuntimeKind::CriO && chosen.as_str().is_none_or(|name| name == "crun")
}

/// Returns true if kubexm runs a load balancer in front of API servers with addresses of IPv6.
fn balances_ipv6(cluster: &Cluster) -> bool {
    let runs = !matches!(
        cluster.high_availability.kind,
        LoadBalancer::None | LoadBalancer::External
    );
    runs && cluster.network.families().next() == Some(IpFamily::V6)
}

/// Returns the experimental settings that a cluster file selects, as `field: value`.
pub fn selected(cluster: &Cluster) -> Vec<String> {
    let chosen = [
        (RUNTIME, cluster.runtime.kind.name()),
        (PLUGIN, cluster.network.plugin.name()),
    ];
    let settings = CLUSTER.iter().filter(|one| (one.is_selected)(cluster));
    settings
        .map(|one| (one.field, one.value))
        .chain(kinds().filter(|one| chosen.contains(one)))
        .map(|(field, value)| format!("{field}: {value}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::{parse_cluster, schema};

    /// Collects the marks of a schema, as field and value.
    fn marks(schema: &Value, path: &str, found: &mut BTreeSet<(String, String)>) {
        for mark in schema["x-experimental"].as_array().into_iter().flatten() {
            found.insert((path.to_owned(), mark.as_str().unwrap().to_owned()));
        }
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            let separator = if path.is_empty() { "" } else { "." };
            marks(inner, &format!("{path}{separator}{name}"), found);
        }
        if schema["items"].is_object() {
            marks(&schema["items"], &format!("{path}[]"), found);
        }
        for branch in schema["oneOf"].as_array().into_iter().flatten() {
            marks(branch, path, found);
        }
    }

    fn marks_of(text: &str) -> BTreeSet<(String, String)> {
        let mut found = BTreeSet::new();
        marks(&serde_json::from_str(text).unwrap(), "", &mut found);
        found
    }

    #[test]
    fn marks_in_the_schemas_equal_the_list() {
        let listed = of_clusters().map(|(field, value)| (field.to_owned(), value.to_owned()));
        assert_eq!(marks_of(&schema::cluster()), listed.collect());
        let listed = MANIFEST.map(|(field, value)| (field.to_owned(), value.to_owned()));
        assert_eq!(marks_of(schema::BUNDLE), BTreeSet::from(listed));
        assert_eq!(marks_of(schema::MIRRORS), BTreeSet::new());
    }

    #[test]
    fn page_of_proven_capabilities_names_every_experimental_setting() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/src/architecture/proven.md"
        );
        let page = std::fs::read_to_string(path).unwrap();
        let (_, experimental) = page.split_once("## Experimental").unwrap();
        for (field, value) in of_clusters().chain(MANIFEST) {
            let line = format!("| `{field}`: {value} |");
            assert!(experimental.contains(&line), "the page has no {line}");
        }
    }

    #[test]
    fn experimental_settings_are_found_in_cluster_files() {
        let with = |from: &str, to: &str| {
            assert!(schema::TEMPLATE.contains(from), "{from}");
            let text = schema::TEMPLATE.replace(from, to);
            let cluster = parse_cluster("cluster.yaml", &text);
            selected(&cluster.unwrap_or_else(|problems| panic!("{problems}"))).join("\n")
        };
        assert_eq!(with("kind: Cluster", "kind: Cluster"), "");
        let runtime = "    type: containerd";
        let runc = "    type: cri-o\n    extraConfig: {crio: {runtime: {default_runtime: runc}}}";
        assert_eq!(with(runtime, runc), "");
        let version = "    version: v1.36.3\n";
        let ipvs = "    version: v1.36.3\n    kubeProxy: {mode: ipvs}\n";
        let found = [
            with("name: node2, ", "name: node2, arch: arm64, "),
            with(version, ipvs),
            with(runtime, "    type: isulad"),
            with(runtime, "    type: cri-o"),
            with("    plugin: flannel", "    plugin: calico"),
            with("    plugin: flannel", "    plugin: cilium"),
            with("  dns:\n", "  dns:\n    nodeLocal: {}\n"),
        ];
        insta::assert_snapshot!(found.join("\n"), @"
        spec.hosts[].arch: arm64
        spec.kubernetes.kubeProxy.mode: ipvs
        spec.containerRuntime.type: isulad
        spec.containerRuntime.type: cri-o with crun
        spec.network.plugin: calico
        spec.network.plugin: cilium
        spec.dns.nodeLocal: node-cache
        ");
    }

    #[test]
    fn load_balancers_with_ipv6_are_experimental() {
        let text = "\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  hosts: [{name: node1, address: \"fdab::11\"}]
  roleGroups: {control-plane: [node1]}
  network: {podCIDR: \"fd00:10:244::/56\", serviceCIDR: \"fd00:10:96::/112\"}
  kubernetes: {version: v1.36.3}
";
        let of = |text: &str| selected(&parse_cluster("cluster.yaml", text).unwrap()).join("\n");
        assert_eq!(of(text), "");
        let balanced = format!("{text}  highAvailability: {{type: haproxy}}\n");
        assert_eq!(of(&balanced), "spec.highAvailability.type: with IPv6");
    }
}
