//! What install, plan, reset and render have in common: hosts, facts, inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::stream::{self, StreamExt};

use super::Failure;
use kubexm_bundle::{Lock, Whole};
use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind};
use kubexm_deploy::{Certificates, EtcdCertificates, Inputs, Machine};
use kubexm_engine::plan::Journal;
use kubexm_engine::seed;
use kubexm_host::known_hosts::HostKeys;
use kubexm_host::{Command, Facts, Host, HostError, SshHost, SshOptions};
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_pki::{Ca, Leaf};
use kubexm_preflight::{Carried, Finding, Offer};
use kubexm_preflight::{outside, registry_client};
use kubexm_types::{Arch, HostName};

/// Connections that are made at once.
const PARALLEL: usize = 20;

/// How hosts are reached.
#[derive(Debug, Args)]
pub struct Connection {
    /// File with the hosts' SSH keys, beside ~/.ssh/known_hosts
    #[arg(long, value_name = "FILE")]
    known_hosts: Option<PathBuf>,
    /// Take and record the SSH key of a host that is seen for the first time
    #[arg(long)]
    accept_new_host_keys: bool,
    /// Where the cluster's journal, CA and kubeconfig are kept [default: .kubexm/<cluster>]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl Connection {
    /// The folder of a cluster on this machine.
    pub fn state_folder(&self, cluster: &Cluster) -> PathBuf {
        self.state
            .clone()
            .unwrap_or_else(|| Path::new(".kubexm").join(&cluster.name))
    }

    fn host_keys(&self, cluster: &Cluster) -> HostKeys {
        let own = self.state_folder(cluster).join("known_hosts");
        let home =
            std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".ssh/known_hosts"));
        let files = home
            .into_iter()
            .chain(self.known_hosts.clone())
            .chain([own.clone()])
            .collect();
        HostKeys {
            files,
            accept_new: self.accept_new_host_keys.then_some(own),
        }
    }

    /// Connects to every host, or says of all that cannot be reached why.
    pub async fn connect(
        &self,
        cluster: &Cluster,
    ) -> Result<BTreeMap<HostName, Arc<dyn Host>>, Failure> {
        if let Some(file) = &self.known_hosts
            && !file.exists()
        {
            let words = format!("--known-hosts: there is no file {}", file.display());
            return Err(Failure::configuration(words));
        }
        let host_keys = self.host_keys(cluster);
        let options = cluster.hosts.iter().map(|host| SshOptions {
            name: host.name.clone(),
            address: host.address.clone(),
            port: host.port,
            user: host.user.clone(),
            password: host.password.clone(),
            private_key: host.private_key_path.clone(),
            host_keys: host_keys.clone(),
        });
        let results: Vec<Result<SshHost, HostError>> = stream::iter(options)
            .map(SshHost::connect)
            .buffered(PARALLEL)
            .collect()
            .await;
        let mut hosts: BTreeMap<HostName, Arc<dyn Host>> = BTreeMap::new();
        let mut errors = Vec::new();
        for result in results {
            match result {
                Ok(host) => {
                    hosts.insert(host.name().clone(), Arc::new(host));
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        if errors.is_empty() {
            Ok(hosts)
        } else {
            Err(Failure::host(errors.join("\n")))
        }
    }
}

/// The facts of all hosts.
pub async fn gather(
    cluster: &Cluster,
    hosts: &BTreeMap<HostName, Arc<dyn Host>>,
) -> Result<BTreeMap<HostName, Facts>, Failure> {
    let paths = kubexm_preflight::paths(cluster, kubexm_deploy::runtime_data_dir(cluster));
    let gather = async |name: &HostName, host: &Arc<dyn Host>| {
        (name.clone(), Facts::gather(host.as_ref(), &paths).await)
    };
    let results: Vec<_> = stream::iter(hosts)
        .map(|(name, host)| gather(name, host))
        .buffered(PARALLEL)
        .collect()
        .await;
    let mut facts = BTreeMap::new();
    let mut errors = Vec::new();
    for (name, result) in results {
        match result {
            Ok(found) => {
                facts.insert(name, found);
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    if errors.is_empty() {
        Ok(facts)
    } else {
        Err(Failure::host(errors.join("\n")))
    }
}

/// The journal of a cluster, for this run alone.
pub fn journal(folder: &Path) -> Result<Journal, Failure> {
    Journal::open(folder)
        .map_err(|error| Failure::configuration(format!("{}: {error}", folder.display())))
}

/// Why hosts no longer answer, where they do not: what failed elsewhere may have waited for them.
pub async fn silent(hosts: &BTreeMap<HostName, Arc<dyn Host>>) -> Vec<HostError> {
    let asked = hosts.values().map(|host| {
        let command = Command::new("true").timeout(Duration::from_secs(10));
        async move { host.run(command).await.err() }
    });
    let answers = futures_util::future::join_all(asked).await;
    answers.into_iter().flatten().collect()
}

/// Preflight: all findings on all hosts, and on what the cluster leans on outside of them.
pub async fn preflight(
    cluster: &Cluster,
    hosts: &BTreeMap<HostName, Arc<dyn Host>>,
    facts: &BTreeMap<HostName, Facts>,
    bundle: &Whole,
) -> Vec<Finding> {
    let lock = bundle.lock();
    let carried = |arches: &BTreeSet<Arch>| carried(&lock.only(arches));
    let there = facts.values().filter_map(Facts::arch).collect();
    let offer = Offer {
        carried: lock
            .architectures
            .iter()
            .map(|arch| (*arch, carried(&BTreeSet::from([*arch]))))
            .collect(),
        registry_kib: carried(&there).images_kib,
        releases: lock
            .packages
            .iter()
            .map(|set| (set.distribution.clone(), set.release.clone()))
            .collect(),
        runtime_dir: kubexm_deploy::runtime_data_dir(cluster).to_owned(),
    };
    let mut findings = kubexm_preflight::check(cluster, facts, &offer);
    let kubeadm = lock.kubeadm(&cluster.kubernetes.version);
    let least = kubeadm.and_then(|facts| facts.minimum_etcd.as_ref());
    findings.extend(outside::check(cluster, hosts, facts, least).await);
    let images = lock.images.iter().map(|image| &image.name);
    let images: Vec<_> = images
        .map(|name| (name.clone(), seed::repository(name)))
        .collect();
    findings.extend(registry_client::check(cluster, hosts, &images).await);
    findings
}

/// How large it is what a lock names.
fn carried(lock: &Lock) -> Carried {
    let files: u64 = lock.files.iter().map(|file| file.size).sum();
    let content: u64 = lock.blobs().values().map(|(size, _)| size).sum();
    Carried {
        images_kib: content.saturating_sub(files) / 1024,
        files_kib: files / 1024,
    }
}

/// What a plan wants to know of a machine, by its facts.
pub fn machine(arch: Arch, facts: &Facts) -> Machine {
    Machine {
        arch,
        releases: facts.releases(),
        has_name_server: facts.one("nameserver").is_some(),
        is_node: facts.is("initialized") || facts.is("joined"),
        etcd_formed: facts.is("etcd_formed"),
        has_network_manager: facts.is("networkmanager"),
    }
}

/// What a plan is made from. The certificates are made where there are none yet.
pub fn inputs<'a>(
    cluster: &'a Cluster,
    bundle: &'a Arc<Whole>,
    facts: &BTreeMap<HostName, Facts>,
    state: &Path,
) -> Result<Inputs<'a>, Failure> {
    let mut machines = BTreeMap::new();
    for (name, facts) in facts {
        let Some(arch) = facts.arch() else { continue };
        machines.insert(name.clone(), machine(arch, facts));
    }
    let certificates = certificates(cluster, state)?;
    Ok(Inputs {
        cluster,
        lock: bundle.lock(),
        blobs: Arc::clone(bundle) as _,
        machines,
        certificates,
    })
}

fn certificates(cluster: &Cluster, state: &Path) -> Result<Certificates, Failure> {
    let folder = state.join("pki");
    let ca = Ca::load_or_create(&folder, &format!("kubexm-{}", cluster.name))
        .map_err(Failure::configuration)?;
    let mut names = vec![
        cluster.registry.host_name.to_string(),
        "127.0.0.1".to_owned(),
    ];
    for host in cluster
        .roles
        .registry
        .iter()
        .filter_map(|name| cluster.host(name))
    {
        names.push(host.name.to_string());
        names.push(host.internal_address.to_string());
    }
    let registry = ca
        .issue(&folder, "registry", &Leaf::server("registry", names))
        .map_err(Failure::configuration)?;
    let etcd_ca = format!("etcd-{}", cluster.name);
    let etcd_ca = match &cluster.etcd {
        Etcd::Kubexm { .. } => {
            Some(Ca::load_or_create(&folder, &etcd_ca).map_err(Failure::configuration)?)
        }
        _ => None,
    };
    let etcd = match &etcd_ca {
        Some(ca) => {
            let issue = |name: &str, leaf: &Leaf| ca.issue(&folder, name, leaf);
            EtcdCertificates::make(cluster, ca.certificate(), issue)
                .map_err(Failure::configuration)?
        }
        None => None,
    };
    let kubernetes = match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => None,
        KubernetesKind::Binaries => {
            let folder = folder.join("kubernetes");
            let pki = ClusterPki::load_or_create(&folder, cluster);
            Some(Arc::new(pki.map_err(Failure::configuration)?))
        }
    };
    Ok(Certificates {
        ca: ca.certificate().to_owned(),
        registry,
        etcd,
        kubernetes,
    })
}
