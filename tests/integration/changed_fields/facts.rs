//! The facts of hosts on which a cluster is installed, as `src/scripts/host/facts.sh` prints them.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, HostSpec, KubernetesKind, LoadBalancer, NetworkPlugin};
use kubexm_deploy::{CLibrary, HostFacts};
use kubexm_host::Facts;
use kubexm_host::facts::{Module, Setting};
use kubexm_types::{Arch, CertificateName, HostName};

/// Returns the facts that a plan depends on.
pub fn of_plan(cluster: &Cluster) -> BTreeMap<HostName, HostFacts> {
    let hosts = cluster.hosts.iter();
    let facts = |host: &HostSpec| HostFacts {
        arch: Arch::Amd64,
        releases: vec![("debian".into(), "trixie".into())],
        c_library: CLibrary::Unknown,
        has_name_server: true,
        is_node: cluster.is_node(&host.name),
        is_initialized: cluster.roles.control_plane.first() == Some(&host.name),
        has_cluster_files: false,
        etcd_formed: matches!(cluster.etcd, Etcd::Systemd { .. }),
        pods_ended: false,
        registry_sources: BTreeSet::new(),
        registry_login: cluster
            .roles
            .registry
            .contains(&host.name)
            .then_some(cluster.registry.login),
        has_network_manager: false,
        has_networkd: false,
    };
    hosts.map(|host| (host.name.clone(), facts(host))).collect()
}

/// Returns the facts that preflight checks.
pub fn of_preflight(cluster: &Cluster) -> BTreeMap<HostName, Facts> {
    let hosts = cluster.hosts.iter();
    hosts
        .map(|host| (host.name.clone(), facts(cluster, host)))
        .collect()
}

fn facts(cluster: &Cluster, host: &HostSpec) -> Facts {
    let is_node = cluster.is_node(&host.name);
    let mut facts = Facts {
        machine: "x86_64".to_owned(),
        cpus: Some(8),
        memory: Some(16 * 1024 * 1024),
        modules: Module::ALL.iter().copied().collect(),
        joined: is_node,
        initialized: cluster.roles.control_plane.first() == Some(&host.name),
        kubernetes: is_node,
        receipt: true,
        systemd: true,
        addresses: host.internal_addresses.iter().collect(),
        ..Facts::default()
    };
    for (setting, value) in applied(cluster, host) {
        facts.applied.entry(setting).or_default().insert(value);
    }
    if is_node {
        let path = "/etc/kubernetes/pki/ca.crt".to_owned();
        facts.certificates.insert(path, authority(cluster));
    }
    if cluster.kubernetes.kind == KubernetesKind::Kubeadm && cluster.is_control_plane(&host.name) {
        facts.certificates.extend(certificates(cluster));
    }
    facts
}

fn applied(cluster: &Cluster, host: &HostSpec) -> Vec<(Setting, String)> {
    let kubernetes = &cluster.kubernetes;
    let mut found = Vec::new();
    let mut add = |setting: Setting, value: &str| found.push((setting, value.to_owned()));
    for program in balancers(cluster, host) {
        add(Setting::Balancer, &program);
    }
    if let (Etcd::Systemd { data_dir, .. }, true) =
        (&cluster.etcd, cluster.roles.etcd.contains(&host.name))
    {
        add(Setting::Etcd, "systemd");
        add(Setting::EtcdDataDir, data_dir.as_str());
    }
    if !cluster.is_node(&host.name) {
        return found;
    }
    add(Setting::KubernetesType, kubernetes.kind.name());
    add(Setting::DnsDomain, &kubernetes.dns_domain);
    add(Setting::Runtime, cluster.runtime.kind.properties().socket);
    let endpoint = cluster.control_plane_endpoint.to_string();
    add(Setting::Endpoint, &endpoint);
    let is_first = cluster.roles.control_plane.first() == Some(&host.name);
    let plugin = cluster.network.plugin;
    if is_first || plugin == NetworkPlugin::Bridge {
        add(Setting::Network, plugin.name());
    }
    match plugin {
        _ if !is_first => {}
        NetworkPlugin::Flannel(backend) => add(Setting::FlannelBackend, backend.name()),
        NetworkPlugin::Calico(calico) => {
            add(Setting::CalicoEncapsulation, calico.encapsulation.name());
        }
        NetworkPlugin::Cilium(cilium) => add(Setting::CiliumRouting, cilium.routing.name()),
        NetworkPlugin::Bridge | NetworkPlugin::None => {}
    }
    add(Setting::NodeName, host.name.as_str());
    if !cluster.is_control_plane(&host.name) {
        return found;
    }
    add(Setting::ControlPlane, "yes");
    add(Setting::Version, &kubernetes.version.to_string());
    let services = cluster.network.service_cidr.to_string();
    add(Setting::ServiceCidr, &services);
    add(Setting::PodCidr, &cluster.network.pod_cidr.to_string());
    add(Setting::ClusterName, &kubernetes.cluster_name);
    let address = host.internal_address().to_string();
    add(Setting::AdvertiseAddress, &address);
    let port = kubernetes.api_server.port.to_string();
    add(Setting::ApiServerPort, &port);
    match &cluster.etcd {
        Etcd::Kubeadm { data_dir, .. } => {
            add(Setting::Etcd, "kubeadm");
            add(Setting::EtcdDataDir, data_dir.as_str());
            add(Setting::EtcdServers, "https://127.0.0.1:2379");
        }
        Etcd::Systemd { .. } => add(Setting::EtcdServers, "https://127.0.0.1:2379"),
        Etcd::External { endpoints, .. } => add(Setting::EtcdServers, &endpoints.join(",")),
    }
    if let Some(encryption) = cluster.security.encryption {
        add(Setting::Encryption, "encrypted");
        if encryption.key == 0 {
            add(Setting::Encryption, "plain");
        }
    }
    found
}

fn balancers(cluster: &Cluster, host: &HostSpec) -> Vec<String> {
    let balancer = &cluster.high_availability.kind;
    let runs = match balancer {
        LoadBalancer::Holder { .. } => cluster.roles.load_balancer.contains(&host.name),
        LoadBalancer::Pods { .. } => cluster.is_control_plane(&host.name),
        LoadBalancer::Local { .. } | LoadBalancer::None | LoadBalancer::External => true,
    };
    if runs {
        balancer.programs()
    } else {
        Vec::new()
    }
}

/// Returns a CA that is valid for as long as the cluster file states.
fn authority(cluster: &Cluster) -> String {
    if let Some(of_site) = kubexm_pki::site_ca::certificate(cluster).unwrap() {
        return of_site;
    }
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.not_before = time::OffsetDateTime::now_utc();
    let days = i64::from(cluster.kubernetes.validity.ca_days);
    params.not_after = params.not_before + time::Duration::days(days);
    let key = rcgen::KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem()
}

/// Returns the certificates of kubeadm in which an install compares names.
fn certificates(cluster: &Cluster) -> BTreeMap<String, String> {
    let texts = |names: &[CertificateName]| names.iter().map(ToString::to_string).collect();
    let issue = |names: Vec<String>| {
        let mut all = vec!["localhost".to_owned()];
        all.extend(names);
        let params = rcgen::CertificateParams::new(all).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    };
    let mut certificates = BTreeMap::new();
    let mut add = |name: &str, names: Vec<String>| {
        certificates.insert(format!("/etc/kubernetes/pki/{name}.crt"), issue(names));
    };
    let mut names: Vec<String> = texts(&cluster.kubernetes.api_server.cert_sans);
    let address = cluster.control_plane_endpoint.address;
    names.extend(address.map(|address| address.to_string()));
    add("apiserver", names);
    if let Etcd::Kubeadm { cert_sans, .. } = &cluster.etcd {
        add("etcd/server", texts(cert_sans));
        add("etcd/peer", texts(cert_sans));
    }
    certificates
}
