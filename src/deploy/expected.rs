//! What runs on the hosts of an installed cluster, for commands that have no bundle.

use std::collections::BTreeSet;

use crate::{dns, etcd, health, load_balancer, registry};
use kubexm_config::cluster::{Cluster, Etcd, HostSpec, KubernetesKind};

/// The programs of the control plane. With kubeadm they are static pods, otherwise systemd units.
pub const CONTROL_PLANE: [&str; 3] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// Returns the systemd units that an install starts on a host.
pub fn units(cluster: &Cluster, host: &HostSpec) -> BTreeSet<String> {
    let name = &host.name;
    let mut units: BTreeSet<String> = load_balancer::units_on(cluster, name).into_iter().collect();
    let mut add = |unit: &str| {
        units.insert(unit.to_owned());
    };
    if cluster.roles.registry.contains(name) && cluster.registry.external.is_none() {
        add(registry::UNIT);
    }
    if cluster.roles.etcd.contains(name) && matches!(cluster.etcd, Etcd::Systemd { .. }) {
        add(etcd::UNIT);
    }
    let has_units = cluster.kubernetes.kind == KubernetesKind::Systemd;
    if has_units && cluster.is_control_plane(name) {
        let programs = CONTROL_PLANE.iter();
        programs.for_each(|program| add(&format!("{program}.service")));
    }
    if !cluster.is_node(name) {
        return units;
    }
    add("kubelet.service");
    if has_units {
        add("kube-proxy.service");
    }
    let others = [cluster.network.plugin.properties().unit, dns::unit(cluster)];
    let others = others.into_iter().flatten();
    let of_runtime = cluster.runtime.kind.properties().units();
    of_runtime.into_iter().chain(others).for_each(add);
    units
}

/// Returns the static pods of a host, whose manifests kubeadm or kubexm writes.
pub fn static_pods(cluster: &Cluster, host: &HostSpec) -> Vec<String> {
    let mut pods = load_balancer::static_pods(cluster, &host.name);
    let is_kubeadm = cluster.kubernetes.kind == KubernetesKind::Kubeadm;
    if is_kubeadm && cluster.is_control_plane(&host.name) {
        let etcd = matches!(cluster.etcd, Etcd::Kubeadm { .. }).then_some("etcd");
        let names = CONTROL_PLANE.into_iter().chain(etcd);
        pods.extend(names.map(str::to_owned));
    }
    pods
}

/// Returns the programs of Kubernetes on a host, with the URLs of their health checks on this host.
pub fn health_checks(cluster: &Cluster, host: &HostSpec) -> Vec<(String, String)> {
    let programs = health::programs(cluster, host);
    let pairs = programs
        .iter()
        .filter_map(|program| program.split_once('='));
    let mut checks: Vec<(String, String)> = pairs
        .map(|(name, url)| (name.to_owned(), url.to_owned()))
        .collect();
    if cluster.is_control_plane(&host.name) {
        let url = format!("{}/readyz", api_server(cluster, host));
        checks.insert(0, (CONTROL_PLANE[0].to_owned(), url));
    }
    checks
}

/// Returns the URL of the API server on a control plane.
pub fn api_server(cluster: &Cluster, host: &HostSpec) -> String {
    format!("https://{}", cluster.api_server(host))
}

/// Returns `host:port` of the registries that kubexm runs.
pub fn registries(cluster: &Cluster) -> Vec<String> {
    match cluster.registry.external {
        Some(_) => Vec::new(),
        None => registry::endpoints(cluster),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Inputs;
    use crate::example::{OneFile, cluster, lock};
    use kubexm_config::cluster::{PluginKind, RuntimeKind};

    const IMAGES: [&str; 4] = [
        "ghcr.io/flannel-io/flannel:v0.28.4",
        "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
        "registry.k8s.io/dns/k8s-dns-node-cache:1.26.4",
        "docker.io/library/haproxy:3.2",
    ];
    const PROGRAMS: [&str; 8] = [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "etcd",
        "docker",
        "cri-dockerd",
        "cri-o",
    ];

    /// Compares the units of each host with those of a plan.
    fn assert_planned(kubernetes: &str, sections: &str) {
        let cluster = cluster(kubernetes, sections);
        let mut lock = lock(&IMAGES);
        let kubeadm = lock.files[0].clone();
        lock.files.extend(PROGRAMS.map(|name| {
            let mut file = kubeadm.clone();
            file.component = name.to_owned();
            file
        }));
        let blobs = Arc::new(OneFile(Vec::new()));
        let inputs = Inputs::assumed(&cluster, &lock, blobs);
        let plan = crate::plan(&inputs).unwrap_or_else(|error| panic!("{sections}: {error}"));
        for host in &cluster.hosts {
            let tasks = plan.plan.tasks.iter();
            let steps = tasks
                .filter(|task| task.host == host.name)
                .flat_map(|task| &task.steps);
            let names = steps.filter_map(|step| step.id().strip_prefix("unit ").map(str::to_owned));
            let planned: BTreeSet<String> = names.collect();
            assert!(!planned.is_empty(), "{}", host.name);
            assert_eq!(
                units(&cluster, host),
                planned,
                "{kubernetes} {sections} {}",
                host.name
            );
        }
    }

    #[test]
    fn units_are_those_that_an_install_starts() {
        let fixed = [
            "etcd: {type: systemd}",
            "dns: {nodeLocal: {address: 169.254.20.10, interface: loopback}}",
        ];
        let runtimes = RuntimeKind::ALL.iter().map(|kind| kind.name());
        let runtimes = runtimes.map(|name| format!("containerRuntime: {{type: {name}}}"));
        let plugins = PluginKind::ALL.iter();
        let plugins = plugins.filter(|kind| kind.properties().unit.is_some());
        let plugins = plugins.map(|kind| format!("network: {{plugin: {}}}", kind.name()));
        for sections in fixed
            .map(str::to_owned)
            .into_iter()
            .chain(runtimes)
            .chain(plugins)
        {
            assert_planned("", &sections);
        }
        assert_planned("type: systemd", "etcd: {type: systemd}");
    }

    #[test]
    fn load_balancers_have_units_on_their_hosts() {
        let units_of = |sections: &str| {
            let cluster = cluster("", sections);
            let of = |at: usize| -> Vec<String> {
                let units = units(&cluster, &cluster.hosts[at]).into_iter();
                units
                    .filter(|unit| unit.contains("proxy") || unit.contains("keepalived"))
                    .collect()
            };
            [of(0).join(" "), of(1).join(" ")]
        };
        let both = "kubexm-haproxy.service kubexm-keepalived.service".to_owned();
        let balancer = "highAvailability: {type: keepalived-haproxy}\n\
                        controlPlaneEndpoint: {domain: api.example, address: 192.0.2.10, port: 8443}";
        assert_eq!(units_of(balancer), [both, String::new()]);
        let proxy = "kubexm-haproxy.service".to_owned();
        assert_eq!(
            units_of("highAvailability: {type: haproxy}"),
            [proxy.clone(), proxy]
        );
    }

    #[test]
    fn programs_of_a_host_depend_on_its_roles() {
        let cluster = cluster("", "");
        let [first, second] = [&cluster.hosts[0], &cluster.hosts[1]];
        let all = [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "etcd",
        ];
        assert_eq!(static_pods(&cluster, first), all);
        assert!(static_pods(&cluster, second).is_empty());
        let pods_with = |sections: &str| {
            let cluster = crate::example::cluster("", sections);
            let hosts = cluster.hosts.iter();
            hosts
                .map(|host| static_pods(&cluster, host))
                .collect::<Vec<_>>()
        };
        let kube_vip = pods_with(
            "controlPlaneEndpoint: {address: 192.0.2.99}\nhighAvailability: {type: kube-vip, kubeVip: {services: true}}",
        );
        assert_eq!(kube_vip[0][..2], ["kube-vip", "kube-vip-services"]);
        assert_eq!((kube_vip[0].len(), kube_vip[1].len()), (6, 0));
        let haproxy = pods_with("highAvailability: {type: haproxy, run: static-pod}");
        assert_eq!(
            (haproxy[0].len(), haproxy[1].join(" ").as_str()),
            (5, "kubexm-haproxy")
        );
        let checks = health_checks(&cluster, first);
        assert_eq!(checks[0].1, "https://192.0.2.11:6443/readyz");
        assert_eq!(
            (checks.len(), health_checks(&cluster, second).len()),
            (5, 2)
        );
        assert_eq!(registries(&cluster).len(), 1);
    }
}
