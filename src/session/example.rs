//! A site for tests: two directories that represent hosts, and a cluster file.
#![allow(
    clippy::new_without_default,
    clippy::unwrap_used,
    reason = "only tests use it, also those of other crates"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::begun::Operation;
use crate::identity::KnownCluster;
use crate::session::{self, Hosts};
use crate::{CommandError, certificates, change};
use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_config::example::{self, cluster_of};
use kubexm_engine::cluster::ClusterRecord;
use kubexm_engine::plan::{Journal, Receipt, Stop, UndoLog};
use kubexm_engine::steps::Undo;
use kubexm_host::Host;
use kubexm_host::local::LocalHost;
use kubexm_types::ClusterId;
use kubexm_types::event::Events;

pub fn cluster() -> Cluster {
    cluster_with("")
}

/// Returns the cluster with another section.
pub fn cluster_with(section: &str) -> Cluster {
    example::cluster("", section)
}

/// A site: two hosts, and state directories.
pub struct Site {
    folder: tempfile::TempDir,
    pub hosts: Hosts,
    pub events: Events,
}

impl Site {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Commands of another user namespace must be able to enter it.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let host = |name: &str| {
            let root = folder.path().join(name);
            std::fs::create_dir(&root).unwrap();
            let host = LocalHost::within(name.parse().unwrap(), &root).unwrap();
            (host.name().clone(), Arc::new(host) as Arc<dyn Host>)
        };
        let hosts = ["node1", "node2"].map(host).into();
        Self {
            folder,
            hosts,
            events: Events::silent(),
        }
    }

    /// Returns a path on a host.
    pub fn at(&self, host: &str, path: &str) -> PathBuf {
        self.folder
            .path()
            .join(host)
            .join(path.trim_start_matches('/'))
    }

    /// Returns a state directory.
    pub fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Does what an install does before and with its first change: a file on each host, that a reset removes.
    pub async fn install(&self, state: &str) -> Result<(), CommandError> {
        self.install_on(state, &self.hosts).await
    }

    pub async fn install_on(&self, state: &str, hosts: &Hosts) -> Result<(), CommandError> {
        let journal = self.journal(state);
        let stop = Stop::new();
        let locks = change::lock(hosts, &journal, Operation::Install, &self.events, &stop).await?;
        let installed = self.install_locked(&journal, hosts).await;
        locks.release().await;
        installed
    }

    async fn install_locked(&self, journal: &Journal, hosts: &Hosts) -> Result<(), CommandError> {
        let (cluster, state) = (cluster(), journal.folder());
        let facts = session::gather(&cluster, hosts).await?;
        let mut known = KnownCluster::read(&cluster, state)?;
        let origins = known.origins(&cluster, &facts, &self.events)?;
        certificates::load_or_issue(&cluster, state, None)?;
        known
            .begin_install(&cluster, hosts, &facts, &origins)
            .await?;
        journal.save("admin.conf", b"").unwrap();
        for host in hosts.values() {
            let undo = Undo::RemoveFile {
                path: "/etc/installed".parse().unwrap(),
                folders: Vec::new(),
            };
            let receipt = Receipt::new(Arc::clone(host));
            let undo = undo.to_value().unwrap();
            receipt.record("file", undo).await.unwrap();
            let file = self.at(host.name().as_str(), "etc/installed");
            std::fs::write(file, state.display().to_string()).unwrap();
        }
        Ok(())
    }

    /// Opens a state directory. A process that another test starts can have a copy of its lock for a moment.
    pub fn journal(&self, state: &str) -> Journal {
        loop {
            match session::journal(&self.state(state)) {
                Err(error) if error.to_string().contains("another kubexm process") => {
                    std::thread::yield_now();
                }
                journal => return journal.unwrap(),
            }
        }
    }

    pub fn is_installed(&self, host: &str) -> bool {
        self.at(host, "etc/installed").exists()
    }

    /// Returns only these hosts.
    pub fn only(&self, name: &str) -> Hosts {
        let mut hosts = self.hosts.clone();
        hosts.retain(|host, _| host.as_str() == name);
        hosts
    }

    /// Makes the hosts look as the version before IDs left them.
    pub fn as_earlier(&self, state: &str) {
        for host in ["node1", "node2"] {
            std::fs::remove_file(self.at(host, "var/lib/kubexm/cluster")).unwrap();
            let receipt = self.at(host, "var/lib/kubexm/receipt.jsonl");
            let text = std::fs::read_to_string(&receipt).unwrap();
            let (start, _) = text.split_once(",\"cluster\":").unwrap();
            std::fs::write(receipt, format!("{start}}}\n")).unwrap();
        }
        std::fs::remove_file(self.state(state).join(ClusterRecord::FILE)).unwrap();
    }

    /// Writes the registry CA of a state directory to all hosts.
    pub fn write_ca(&self, state: &str) {
        let ca = self.state(state).join("pki/kubexm-example.crt");
        for host in ["node1", "node2"] {
            let folder = self.at(host, "etc/kubexm");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::copy(&ca, folder.join("registry-ca.crt")).unwrap();
        }
    }

    pub fn id_of(&self, host: &str) -> Option<ClusterId> {
        let text = std::fs::read_to_string(self.at(host, "var/lib/kubexm/cluster")).ok()?;
        Some(kubexm_types::ClusterIdentity::from_json(&text).unwrap().id)
    }
}

/// Replaces what differs between runs.
pub fn without_ids(site: &Site, text: &str) -> String {
    let mut text = text.replace(&site.folder.path().display().to_string(), "[site]");
    while let Some(at) = text.find("(ID ") {
        let end = at + text[at..].find(')').unwrap();
        text.replace_range(at..=end, "[id]");
    }
    let is_time = |word: &str| word.starts_with("20") && word.contains('T');
    let words = text
        .split(' ')
        .map(|word| if is_time(word) { "[time]" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the lock of a bundle with Kubernetes 1.36.3 and an etcd.
pub fn lock_with_etcd(etcd: &str) -> Lock {
    let text = format!(
        "lockVersion: 1\nname: x\nkubernetes: [1.36.3]\narchitectures: [amd64]\nfiles:\n- {{component: etcd, version: {etcd}, \
             arch: amd64, fileName: e, url: 'https://example.org/e', size: 1, digest: 'sha256:{}', checksum: pinned, format: tar-gz}}\n\
             images: []\npackages: []\nkubeadm:\n- {{version: 1.36.3, images: ['registry.k8s.io/etcd:{etcd}-0']}}\n",
        "0".repeat(64)
    );
    serde_saphyr::from_str(&text).unwrap()
}

/// Returns a cluster; etcd as units has three members.
pub fn cluster_with_etcd(kind: &str) -> Cluster {
    let members = match kind {
        "systemd" => ", etcd: [node1, node2, node3]",
        _ => "",
    };
    let roles = format!("control-plane: [node1], worker: [node2, node3]{members}");
    cluster_of(&roles, "", &format!("etcd: {{type: {kind}}}"))
}

/// Returns a cluster of a control plane and a worker. `kubernetes` has further fields of that section.
pub fn cluster_of_two(kubernetes: &str) -> Cluster {
    example::cluster(kubernetes, "")
}

/// Returns the same cluster without kubeadm.
pub fn cluster_of_units() -> Cluster {
    example::cluster("type: systemd", "etcd: {type: systemd}")
}

/// Returns a cluster of three control planes behind a load balancer of the site, and a worker.
pub fn cluster_of_four() -> Cluster {
    let roles = "control-plane: [node1, node2, node3], worker: [node4]";
    let endpoint = "controlPlaneEndpoint: {address: 192.0.2.99}";
    cluster_of(
        roles,
        "",
        &format!("{endpoint}\nhighAvailability: {{type: external}}"),
    )
}
