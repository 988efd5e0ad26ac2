//! Proofs at build time: what a cluster would render is held against the bundle, so that nothing
//! is found missing behind the gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::kubernetes::kubeadm;
use super::{DeployError, Inputs, plan, rendered};
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::cluster::{Etcd, KubernetesKind, PatchFile};
use kubexm_config::{Cluster, Problems};
use kubexm_engine::plan::RenderedFile;
use kubexm_types::{HostPath, ImageRef, Version};

/// A text that kubeadm shall judge.
pub struct KubeadmConfig {
    /// What it is, in words.
    pub title: String,
    /// The configuration.
    pub text: String,
}

/// Patches that kubeadm shall try on what it makes of a configuration.
pub struct KubeadmPatches {
    /// Whose they are, in words.
    pub title: String,
    /// A configuration for `kubeadm init`.
    pub config: String,
    /// What the configuration calls the folder of the files.
    pub folder: &'static str,
    /// The patches.
    pub files: Vec<PatchFile>,
}

/// What is known of installing a cluster from a bundle.
#[derive(Default)]
pub struct Proof {
    /// What is wrong with it, in sentences.
    pub findings: Vec<String>,
    /// What the bundled kubeadm must still judge.
    pub configs: Vec<KubeadmConfig>,
    /// What it must still try.
    pub patches: Vec<KubeadmPatches>,
}

/// Holds installing `cluster` against a bundle with this lock.
///
/// # Errors
/// The cluster cannot be planned at all.
pub fn prove(cluster: &Cluster, lock: &Lock, blobs: &Arc<dyn Blobs>) -> Result<Proof, DeployError> {
    let mut proof = Proof {
        findings: findings(cluster, lock, blobs)?,
        ..Proof::default()
    };
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        return Ok(proof);
    }
    for (at, host) in cluster.nodes().into_iter().enumerate() {
        let (command, text) = match at {
            0 => ("init", kubeadm::init_config(cluster, host)?),
            _ => ("join", kubeadm::join_preview(cluster, host)?),
        };
        proof.configs.push(KubeadmConfig {
            title: format!("kubeadm {command} on {}", host.name),
            text,
        });
        let files = kubeadm::patches::files(cluster, host);
        if !files.is_empty() && proof.patches.iter().all(|known| known.files != files) {
            proof.patches.push(KubeadmPatches {
                title: format!("patches for {}", host.name),
                config: kubeadm::init_config(cluster, host)?,
                folder: kubeadm::patches::FOLDER,
                files,
            });
        }
    }
    Ok(proof)
}

/// What is wrong with the plan and the files that it renders, on each architecture.
fn findings(
    cluster: &Cluster,
    lock: &Lock,
    blobs: &Arc<dyn Blobs>,
) -> Result<Vec<String>, DeployError> {
    let mut findings = BTreeSet::new();
    for arch in &lock.architectures {
        let mut inputs = Inputs::unseen(cluster, lock, Arc::clone(blobs));
        for machine in inputs.machines.values_mut() {
            machine.arch = *arch;
        }
        match plan(&inputs) {
            Ok(deployment) => {
                for files in rendered(&deployment.plan).values() {
                    findings.extend(files.iter().flat_map(|file| judge(file, cluster, lock)));
                }
            }
            Err(DeployError::Incomplete(lacking)) => {
                findings.extend(lacking.into_iter().map(|what| format!("lacks {what}")));
            }
            Err(other) => return Err(other),
        }
    }
    Ok(findings.into_iter().collect())
}

/// The default cluster in every way to run Kubernetes that a lock has programs of this version for.
pub fn default_clusters(lock: &Lock, version: &Version) -> Result<Vec<Cluster>, Problems> {
    let by_kubeadm = kubexm_config::default_cluster(version)?;
    let mut arches = lock.architectures.iter();
    if arches.all(|arch| {
        lock.file_version("kube-apiserver", version, *arch)
            .is_none()
    }) {
        return Ok(vec![by_kubeadm]);
    }
    let mut of_units = by_kubeadm.clone();
    of_units.kubernetes.kind = KubernetesKind::Systemd;
    if let Ok(data_dir) = HostPath::parse("/var/lib/etcd") {
        let extra_args = BTreeMap::new();
        of_units.etcd = Etcd::Systemd {
            extra_args,
            data_dir,
        };
    }
    Ok(vec![by_kubeadm, of_units])
}

/// What is wrong with one rendered file.
fn judge(file: &RenderedFile, cluster: &Cluster, lock: &Lock) -> Vec<String> {
    let mut findings = Vec::new();
    for line in file.content.lines().map(str::trim) {
        // Comments, a unit's documentation and who approved a definition may name the world outside.
        if ["#", "Documentation=", "api-approved.kubernetes.io"]
            .iter()
            .any(|word| line.trim_start_matches('"').starts_with(word))
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
                "{}: imagePullPolicy Always asks the registry at every start",
                file.path
            ));
        }
        for host in addresses(line).filter(|host| !belongs(host, cluster)) {
            findings.push(format!(
                "{}: leads outside the cluster, to {host}",
                file.path
            ));
        }
    }
    findings
}

/// The scalar that a line of YAML or JSON gives a field.
fn value<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let (name, value) = line.split_once(':')?;
    let is = name.trim_matches('"') == field;
    is.then(|| value.trim().trim_end_matches(',').trim_matches(['"', '\'']))
}

/// Hosts of the web addresses in a line.
fn addresses(line: &str) -> impl Iterator<Item = &str> {
    let parts = ["http://", "https://"]
        .into_iter()
        .flat_map(move |scheme| line.split(scheme).skip(1));
    parts.map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')));
        &rest[..end.unwrap_or(rest.len())]
    })
}

fn belongs(host: &str, cluster: &Cluster) -> bool {
    let own = [
        cluster.registry.host_name.as_str(),
        cluster.control_plane_endpoint.host.as_str(),
        "127.0.0.1",
        "localhost",
    ];
    let of_host = |spec: &kubexm_config::cluster::HostSpec| {
        host == spec.name.as_str()
            || host == spec.address
            || host == spec.internal_address.to_string()
    };
    let etcd = match &cluster.etcd {
        Etcd::External { endpoints, .. } => {
            endpoints.iter().any(|endpoint| endpoint.contains(host))
        }
        _ => false,
    };
    let service = host.ends_with(&format!(".svc.{}", cluster.kubernetes.dns_domain));
    let registry = cluster.registry.external.as_ref();
    let registry = registry.is_some_and(|own| own.address.split(':').next() == Some(host));
    own.contains(&host) || service || registry || etcd || cluster.hosts.iter().any(of_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(content: &str) -> Vec<String> {
        let cluster =
            kubexm_config::parse_cluster("example", kubexm_config::schema::TEMPLATE).unwrap();
        let lock = Lock {
            lock_version: Lock::VERSION,
            name: "empty".into(),
            kubernetes: Vec::new(),
            architectures: Vec::new(),
            files: Vec::new(),
            images: Vec::new(),
            packages: Vec::new(),
            kubeadm: Vec::new(),
            own: Vec::new(),
            index: Default::default(),
        };
        let path = HostPath::parse("/etc/x.yaml").unwrap();
        judge(
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
    fn what_would_fail_behind_the_gap_is_found() {
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
        /etc/x.yaml: imagePullPolicy Always asks the registry at every start
        /etc/x.yaml: the image nginx:1 is not in the bundle
        /etc/x.yaml: imagePullPolicy Always asks the registry at every start
        /etc/x.yaml: leads outside the cluster, to dl.k8s.io
        ");
        let fine = "# https://kubernetes.io\nDocumentation=https://x.io\nserver: https://192.0.2.11:6443\n";
        assert_eq!(findings(fine), Vec::<String>::new());
    }
}
