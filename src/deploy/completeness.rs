//! The completeness check at build time. It plans a cluster and compares the plan and its files with the
//! bundle, so that nothing is missing behind the air gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::kubernetes::kubeadm;
use super::load_balancer::keepalived;
use super::{DeployError, Inputs, linking, plan, rendered};
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::cluster::{
    Calico, DEFAULT_ETCD_DATA_DIR, Encapsulation, Etcd, HostSpec, KubernetesKind, NetworkPlugin,
    PatchFile, PluginKind,
};
use kubexm_config::{Cluster, Problems, urls};
use kubexm_engine::plan::RenderedFile;
use kubexm_types::{HostPath, ImageRef, Version};

/// A configuration that kubeadm must validate.
pub struct KubeadmConfig {
    /// What it is, for the user.
    pub title: String,
    pub text: String,
}

/// Patches that kubeadm must apply to the output of a configuration.
pub struct KubeadmPatches {
    /// What they are for, for the user.
    pub title: String,
    /// A configuration for `kubeadm init`.
    pub config: String,
    /// The directory of the files in the configuration.
    pub folder: &'static str,
    pub files: Vec<PatchFile>,
}

/// The result of a completeness check.
#[derive(Default)]
pub struct Report {
    /// What prevents an install, one message for each cause.
    pub findings: Vec<String>,
    /// Configurations that the bundled kubeadm must still validate.
    pub configs: Vec<KubeadmConfig>,
    /// Patches that the bundled kubeadm must still apply.
    pub patches: Vec<KubeadmPatches>,
}

/// Checks that `cluster` can be installed from a bundle with this lock.
///
/// # Errors
/// The cluster cannot be planned for a reason other than missing content.
pub fn check(
    cluster: &Cluster,
    lock: &Lock,
    blobs: &Arc<dyn Blobs>,
) -> Result<Report, DeployError> {
    let mut report = Report {
        findings: findings(cluster, lock, blobs)?,
        ..Report::default()
    };
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        return Ok(report);
    }
    report.configs = kubeadm_configs(cluster)?;
    for host in cluster.nodes() {
        let files = kubeadm::patches::files(cluster, host);
        if !files.is_empty() && report.patches.iter().all(|known| known.files != files) {
            report.patches.push(KubeadmPatches {
                title: format!("patches for {}", host.name),
                config: kubeadm::init_config(cluster, host)?,
                folder: kubeadm::patches::FOLDER,
                files,
            });
        }
    }
    Ok(report)
}

/// Returns the configuration of kubeadm for each node.
///
/// # Errors
/// The cluster has a value that the configuration cannot have.
pub fn kubeadm_configs(cluster: &Cluster) -> Result<Vec<KubeadmConfig>, DeployError> {
    let config = |(at, host): (usize, &HostSpec)| {
        let (command, text) = match at {
            0 => ("init", kubeadm::init_config(cluster, host)?),
            _ => ("join", kubeadm::join_config_for_validation(cluster, host)?),
        };
        Ok(KubeadmConfig {
            title: format!("kubeadm {command} on {}", host.name),
            text,
        })
    };
    cluster
        .nodes()
        .into_iter()
        .enumerate()
        .map(config)
        .collect()
}

/// Returns what is wrong with the plan and its files, for each architecture.
fn findings(
    cluster: &Cluster,
    lock: &Lock,
    blobs: &Arc<dyn Blobs>,
) -> Result<Vec<String>, DeployError> {
    let mut findings = BTreeSet::new();
    for arch in &lock.architectures {
        let mut inputs = Inputs::assumed(cluster, lock, Arc::clone(blobs));
        for facts in inputs.hosts.values_mut() {
            facts.arch = *arch;
        }
        match plan(&inputs) {
            Ok(deployment) => {
                findings.extend(linking::conflicts_of_releases(&deployment.plan, lock));
                let files = rendered(&deployment.plan);
                let files = files.values().flatten();
                let checked = files.filter(|file| !is_of_user(&file.path, cluster));
                findings.extend(checked.flat_map(|file| check_file(file, cluster, lock)));
            }
            Err(DeployError::Incomplete(missing)) => {
                findings.extend(
                    missing
                        .into_iter()
                        .map(|what| format!("the bundle does not contain {what}")),
                );
            }
            Err(other) => return Err(other),
        }
    }
    Ok(findings.into_iter().collect())
}

/// Returns the network plugin of the default clusters: the default one, unless the bundle has only another one. A bundle
/// without a plugin is for clusters whose users install it.
fn carried_plugin(lock: &Lock, default: NetworkPlugin) -> NetworkPlugin {
    let carried = |kind: PluginKind| match kind {
        PluginKind::Flannel => {
            let begins = kind.properties().repositories.iter();
            let names: Vec<String> = lock
                .images
                .iter()
                .map(|image| image.name.to_string())
                .collect();
            let is_own = |begin: &&str| names.iter().any(|name| name.starts_with(*begin));
            begins.clone().any(is_own).then_some(default)
        }
        PluginKind::Calico => {
            let is_there = lock.files.iter().any(|file| file.component == "calico");
            is_there.then_some(NetworkPlugin::Calico(Calico {
                encapsulation: Encapsulation::Vxlan,
                mtu: None,
            }))
        }
        // The manifest of Cilium is the user's, and every bundle has the programs of the bridge.
        PluginKind::Cilium | PluginKind::Bridge | PluginKind::None => None,
    };
    let mut all = PluginKind::ALL.iter().copied();
    all.find_map(carried).unwrap_or(NetworkPlugin::None)
}

/// Returns the default clusters of a Kubernetes version: one with kubeadm and, if the lock has the programs,
/// one without. They have the network plugin that the bundle has.
///
/// # Errors
/// The default cluster is invalid for this version.
pub fn default_clusters(lock: &Lock, version: &Version) -> Result<Vec<Cluster>, Problems> {
    let mut by_kubeadm = kubexm_config::default_cluster(version)?;
    by_kubeadm.network.plugin = carried_plugin(lock, by_kubeadm.network.plugin);
    let mut arches = lock.architectures.iter();
    if arches.all(|arch| {
        lock.file_version("kube-apiserver", version, *arch)
            .is_none()
    }) {
        return Ok(vec![by_kubeadm]);
    }
    let mut by_systemd = by_kubeadm.clone();
    by_systemd.kubernetes.kind = KubernetesKind::Systemd;
    if let Ok(data_dir) = HostPath::parse(DEFAULT_ETCD_DATA_DIR) {
        let extra_args = BTreeMap::new();
        by_systemd.etcd = Etcd::Systemd {
            extra_args,
            data_dir,
            cert_sans: Vec::new(),
            lock_memory: false,
        };
    }
    Ok(vec![by_kubeadm, by_systemd])
}

/// Returns whether a file on hosts has the content of a file of the user. It may name every address.
fn is_of_user(path: &HostPath, cluster: &Cluster) -> bool {
    cluster.system.files.iter().any(|file| file.path == *path)
        || keepalived::notify_path().is_ok_and(|notify| notify == *path)
}

/// Returns what is wrong with a rendered file.
fn check_file(file: &RenderedFile, cluster: &Cluster, lock: &Lock) -> Vec<String> {
    let mut findings = Vec::new();
    for line in file.content.lines().map(str::trim) {
        // These lines may contain addresses on the internet, because no program connects to them.
        if ["#", "Documentation=", "api-approved.kubernetes.io"]
            .iter()
            .any(|prefix| line.trim_start_matches('"').starts_with(prefix))
        {
            continue;
        }
        let field = line.trim_start_matches("- ");
        if let Some(name) = value(field, "image") {
            let known = name
                .parse::<ImageRef>()
                .is_ok_and(|name| lock.image(&name).is_some());
            if !known {
                findings.push(format!(
                    "{}: the image {name} is not in the bundle",
                    file.path
                ));
            }
        }
        if value(field, "imagePullPolicy") == Some("Always") {
            findings.push(format!(
                "{}: imagePullPolicy Always contacts the registry at every start",
                file.path
            ));
        }
        for host in urls::hosts(line).filter(|host| !is_in_cluster(host, cluster)) {
            findings.push(format!(
                "{}: contains the address {host}, which is outside of the cluster",
                file.path
            ));
        }
    }
    findings
}

/// Returns the scalar of a field, if a line of YAML or JSON contains the field.
fn value<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let (name, value) = line.split_once(':')?;
    let is = name.trim_matches('"') == field;
    is.then(|| value.trim().trim_end_matches(',').trim_matches(['"', '\'']))
}

/// Returns whether a host name or address belongs to the cluster, or to its site: the cluster file names it.
fn is_in_cluster(host: &str, cluster: &Cluster) -> bool {
    let own = [
        cluster.registry.host_name.as_str(),
        cluster.control_plane_endpoint.host.as_str(),
        "127.0.0.1",
        "localhost",
    ];
    let of_host = |spec: &HostSpec| {
        host == spec.name.as_str()
            || host == spec.address
            || host == spec.internal_address().to_string()
    };
    let service = host.ends_with(&format!(".svc.{}", cluster.kubernetes.dns_domain));
    own.contains(&host)
        || service
        || cluster.servers.contains(host)
        || registries(cluster).any(|address| host_of(address) == host)
        || cluster.hosts.iter().any(of_host)
}

/// Returns the registries of the site, as `host` or `host:port`.
fn registries(cluster: &Cluster) -> impl Iterator<Item = &str> {
    let external = cluster.registry.external.iter();
    let besides = cluster.runtime.registries.iter();
    let besides = besides.flat_map(|own| std::iter::once(&own.name).chain(&own.mirrors));
    let addresses = external.map(|own| &own.address).chain(besides);
    addresses.map(String::as_str)
}

/// Returns the host of `host` or `host:port`. An IPv6 address has no brackets then.
fn host_of(address: &str) -> &str {
    let bracketed = address
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    match bracketed {
        Some((host, _)) => host,
        None => address.split(':').next().unwrap_or(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(content: &str) -> Vec<String> {
        findings_with("", content)
    }

    /// Returns the findings for a file of a cluster with more fields of `kubernetes`.
    fn findings_with(fields: &str, content: &str) -> Vec<String> {
        let version = "    version: v1.36.3\n";
        let text = kubexm_config::schema::TEMPLATE.replace(version, &format!("{version}{fields}"));
        let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
        let lock = Lock::empty("empty");
        let path = HostPath::parse("/etc/x.yaml").unwrap();
        check_file(
            &RenderedFile {
                path,
                mode: 0o644,
                content: content.to_owned(),
            },
            &cluster,
            &lock,
        )
    }

    #[test]
    fn default_clusters_have_the_plugin_of_the_bundle() {
        let plugin = |images: &[&str], has_calico: bool| {
            let mut lock = crate::example::lock(images);
            lock.files
                .retain(|file| has_calico || file.component != "calico");
            let clusters = default_clusters(&lock, &Version::new(1, 36, 3)).unwrap();
            clusters[0].network.plugin.name()
        };
        let flannel = ["ghcr.io/flannel-io/flannel:v0.28.4"];
        assert_eq!(plugin(&flannel, true), "flannel");
        assert_eq!(plugin(&[], true), "calico");
        assert_eq!(plugin(&[], false), "none");
    }

    #[test]
    fn references_outside_of_bundle_and_cluster_are_found() {
        let mut all = Vec::new();
        for content in [
            "  - image: docker.io/library/nginx:1\n",
            "  imagePullPolicy: Always\n",
            "  \"image\": \"nginx:1\",\n",
            "  \"imagePullPolicy\": \"Always\"\n",
            "url = \"https://dl.k8s.io/x\"\n",
        ] {
            all.extend(findings(content));
        }
        insta::assert_snapshot!(all.join("\n"), @"
        /etc/x.yaml: the image docker.io/library/nginx:1 is not in the bundle
        /etc/x.yaml: imagePullPolicy Always contacts the registry at every start
        /etc/x.yaml: the image nginx:1 is not in the bundle
        /etc/x.yaml: imagePullPolicy Always contacts the registry at every start
        /etc/x.yaml: contains the address dl.k8s.io, which is outside of the cluster
        ");
        let fine = "# https://kubernetes.io\nDocumentation=https://x.io\nserver: https://192.0.2.11:6443\n";
        assert_eq!(findings(fine), Vec::<String>::new());
    }

    #[test]
    fn servers_that_the_cluster_file_names_are_accepted() {
        let hosts_toml =
            "server = \"https://harbor.corp:8443\"\n[host.\"http://192.0.2.9:5080\"]\n";
        assert_eq!(findings(hosts_toml).len(), 2);
        let runtime =
            "    registries: {harbor.corp:8443: {mirrors: ['192.0.2.9:5080'], insecure: true}}\n";
        let text = kubexm_config::schema::TEMPLATE;
        let (before, after) = text.split_once("    type: containerd\n").unwrap();
        let text = format!("{before}    type: containerd\n{runtime}{after}");
        let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
        assert!(is_in_cluster("harbor.corp", &cluster));
        assert!(is_in_cluster("192.0.2.9", &cluster));
        assert!(!is_in_cluster("harbor.example", &cluster));

        let issuer = "oidc-issuer-url: https://login.corp/realm\nv6: https://[fd00::5]:443\n";
        assert_eq!(findings(issuer).len(), 2);
        let named = "    apiServer: {extraArgs: {oidc-issuer-url: https://login.corp/realm, x: 'https://[fd00::5]'}}\n";
        assert_eq!(findings_with(named, issuer), Vec::<String>::new());
    }
}
