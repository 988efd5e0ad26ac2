//! Install and reset on directories that represent hosts.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use super::*;
use crate::begun::Operation;
use crate::change;
use crate::session;
use kubexm_engine::cluster::HostLocks;
use kubexm_engine::plan::{Receipt, Stop, UndoLog};
use kubexm_engine::steps::Undo;
use kubexm_host::Host;
use kubexm_host::local::LocalHost;
use kubexm_types::ClusterId;

const CLUSTER: &str = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts: [{name: node1, address: 192.0.2.11}, {name: node2, address: 192.0.2.12}]
  roleGroups: {control-plane: [node1], worker: [node2]}
  kubernetes: {version: 1.36.3}
";

pub(crate) fn cluster() -> Cluster {
    kubexm_config::parse_cluster("example", CLUSTER).unwrap()
}

/// Returns the cluster with another section.
pub(crate) fn cluster_with(section: &str) -> Cluster {
    kubexm_config::parse_cluster("example", &format!("{CLUSTER}  {section}\n")).unwrap()
}

/// A site: two hosts, and state directories.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    pub(crate) hosts: Hosts,
    pub(crate) events: Events,
}

impl Site {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn at(&self, host: &str, path: &str) -> PathBuf {
        self.folder
            .path()
            .join(host)
            .join(path.trim_start_matches('/'))
    }

    /// Returns a state directory.
    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Does what an install does before and with its first change: a file on each host, that a reset removes.
    pub(crate) async fn install(&self, state: &str) -> Result<(), CommandError> {
        self.install_on(state, &self.hosts).await
    }

    pub(crate) async fn install_on(&self, state: &str, hosts: &Hosts) -> Result<(), CommandError> {
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
    pub(crate) fn journal(&self, state: &str) -> Journal {
        loop {
            match session::journal(&self.state(state)) {
                Err(error) if error.to_string().contains("another kubexm process") => {
                    std::thread::yield_now();
                }
                journal => return journal.unwrap(),
            }
        }
    }

    pub(crate) fn is_installed(&self, host: &str) -> bool {
        self.at(host, "etc/installed").exists()
    }

    /// Returns only these hosts.
    pub(crate) fn only(&self, name: &str) -> Hosts {
        let mut hosts = self.hosts.clone();
        hosts.retain(|host, _| host.as_str() == name);
        hosts
    }

    /// Makes the hosts look as the version before IDs left them.
    pub(crate) fn as_earlier(&self, state: &str) {
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
    pub(crate) fn write_ca(&self, state: &str) {
        let ca = self.state(state).join("pki/kubexm-example.crt");
        for host in ["node1", "node2"] {
            let folder = self.at(host, "etc/kubexm");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::copy(&ca, folder.join("registry-ca.crt")).unwrap();
        }
    }

    fn id_of(&self, host: &str) -> Option<ClusterId> {
        let text = std::fs::read_to_string(self.at(host, "var/lib/kubexm/cluster")).ok()?;
        Some(kubexm_types::ClusterIdentity::from_json(&text).unwrap().id)
    }
}

/// Replaces what differs between runs.
pub(crate) fn without_ids(site: &Site, text: &str) -> String {
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

#[tokio::test]
async fn state_directory_hosts_and_receipts_carry_one_id() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let record = ClusterRecord::load(&site.state("state")).unwrap().unwrap();
    let id = record.identity().id;
    assert_eq!(site.id_of("node1"), Some(id));
    assert_eq!(site.id_of("node2"), Some(id));
    assert_eq!(record.hosts().count(), 2);
    assert!(record.authorities().contains_key(&Authority::Registry));
    for host in site.hosts.values() {
        let records = Receipt::read(host.as_ref()).await.unwrap();
        assert_eq!(records[0].cluster, Some(id));
    }
    site.install("state").await.unwrap();
    assert_eq!(site.id_of("node1"), Some(id));
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(site.at("node1", "var/lib/kubexm/cluster")), 0o600);
}

#[tokio::test]
async fn install_refuses_hosts_of_another_cluster() {
    let site = Site::new();
    site.install("first").await.unwrap();
    let id = site.id_of("node1");
    let refused = site.install("second").await.unwrap_err().to_string();
    insta::assert_snapshot!(without_ids(&site, &refused), @"
    the hosts are not ready; nothing was touched
    node1: belongs to cluster 'example' [id], created [time] the state directory [site]/second has no record of a cluster
      hint: pass the state directory of that cluster with --state, or correct the address of the host in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is lost, frees the host
    node2: belongs to cluster 'example' [id], created [time] the state directory [site]/second has no record of a cluster
      hint: pass the state directory of that cluster with --state, or correct the address of the host in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is lost, frees the host
    ");
    assert_eq!(site.id_of("node1"), id);
    assert!(!site.state("second").join("pki").exists());
    assert!(!site.state("second").join(ClusterRecord::FILE).exists());
}

#[tokio::test]
async fn state_directory_of_another_cluster_is_refused() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let other = CLUSTER.replace("name: example", "name: other");
    let other = kubexm_config::parse_cluster("other", &other).unwrap();
    let refused = KnownCluster::read(&other, &site.state("state"))
        .err()
        .unwrap();
    insta::assert_snapshot!(without_ids(&site, &refused.to_string()), @"
    cannot use the state directory [site]/state: it is of cluster 'example' [id], and the cluster file is of 'other'
    hint: pass another directory with --state, or correct metadata.name
    ");
}

#[tokio::test]
async fn cluster_of_an_earlier_version_receives_its_id() {
    let site = Site::new();
    site.install("state").await.unwrap();
    site.write_ca("state");
    site.as_earlier("state");
    assert_eq!(site.id_of("node1"), None);
    // Another state directory has another CA.
    let refused = site.install("other").await.unwrap_err().to_string();
    assert!(
        refused.contains("has none") && refused.contains("node2"),
        "{refused}"
    );
    assert_eq!(site.id_of("node1"), None);
    site.install("state").await.unwrap();
    let record = ClusterRecord::load(&site.state("state")).unwrap().unwrap();
    assert_eq!(site.id_of("node1"), Some(record.identity().id));
    // The record of the earlier version is not written a second time.
    let records = Receipt::read(site.hosts.values().next().unwrap().as_ref());
    assert_eq!(records.await.unwrap().len(), 1);
}

/// Before, the CA was created again, and the second install changed every certificate of the cluster.
#[tokio::test]
async fn lost_authority_of_a_cluster_is_an_error() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let ca = site.state("state").join("pki/kubexm-example.crt");
    let kept = std::fs::read(&ca).unwrap();
    for name in ["kubexm-example.crt", "kubexm-example.key"] {
        std::fs::remove_file(site.state("state").join("pki").join(name)).unwrap();
    }
    let refused = site.install("state").await.unwrap_err().to_string();
    let digest = kubexm_types::authority::fingerprints(&String::from_utf8_lossy(&kept))[0];
    let refused = refused.replace(&digest.to_string(), "[digest]");
    insta::assert_snapshot!(without_ids(&site, &refused), @"
    cannot use the authority in [site]/state/pki/kubexm-example.crt: there is no such file, but the cluster has the registry CA [digest]
    hint: restore the file from a backup: only kubexm certs rotate-ca and rotate-sa-key replace an authority
    ");
    assert!(!ca.exists());
}

/// The files change before the record, and a run can end in between.
#[tokio::test]
async fn authority_of_an_interrupted_switch_is_no_lost_one() {
    use kubexm_pki::rotation::{self, Kind};
    let site = Site::new();
    site.install("state").await.unwrap();
    let store = kubexm_pki::CertificateStore::new(site.state("state").join("pki"));
    let name = "kubexm-example";
    rotation::begin(&store, name, Kind::Ca, "kubexm-example-2").unwrap();
    rotation::switch(&store, name, Kind::Ca).unwrap();
    KnownCluster::read(&cluster(), &site.state("state")).unwrap();
    // Without the former one, it is another CA.
    rotation::finish(&store, name, Kind::Ca).unwrap();
    let refused = KnownCluster::read(&cluster(), &site.state("state"));
    assert!(refused.is_err());
}

/// Before, the CA was created again without a message.
#[tokio::test]
async fn ca_without_its_key_is_kept() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let pki = site.state("state").join("pki");
    let certificate = std::fs::read(pki.join("kubexm-example.crt")).unwrap();
    std::fs::remove_file(pki.join("kubexm-example.key")).unwrap();
    site.install("state").await.unwrap();
    std::fs::remove_file(pki.join("registry.crt")).unwrap();
    let refused = site.install("state").await.unwrap_err().to_string();
    insta::assert_snapshot!(without_ids(&site, &refused), @"
    cannot issue the certificate registry: [site]/state/pki/kubexm-example.key does not exist, but the certificate of this CA does
    hint: put the key back for this command: kubexm never creates a CA where one exists
    ");
    assert_eq!(
        std::fs::read(pki.join("kubexm-example.crt")).unwrap(),
        certificate
    );
    assert!(!pki.join("kubexm-example.key").exists());
}

#[tokio::test]
async fn second_administrator_is_refused_and_sees_who_works() {
    let site = Site::new();
    let first = site.state("first");
    let stop = Stop::new();
    let journal = site.journal("first");
    let locks = change::lock(
        &site.hosts,
        &journal,
        Operation::Install,
        &site.events,
        &stop,
    );
    let locks: HostLocks = locks.await.unwrap();
    let other = site.journal("second");
    let refused = change::lock(
        &site.only("node1"),
        &other,
        Operation::Reset,
        &site.events,
        &stop,
    )
    .await;
    let refused = refused.err().unwrap().to_string();
    for part in [
        "node1: is locked by `kubexm install` of ",
        &format!("(process {}, state directory ", std::process::id()),
        &first.display().to_string(),
        ") since 20",
        "hint: wait until that command ends",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    locks.release().await;
    let locks = change::lock(&site.hosts, &other, Operation::Reset, &site.events, &stop).await;
    locks.unwrap().release().await;
    assert!(!site.at("node1", "run/kubexm.lock").exists());
}

#[tokio::test]
async fn host_that_left_the_cluster_file_is_reported() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let mut smaller = cluster();
    smaller.hosts.retain(|host| host.name.as_str() != "node2");
    smaller.roles.worker.clear();
    let known = KnownCluster::read(&smaller, &site.state("state")).unwrap();
    let found = known.findings(&smaller, &BTreeMap::new());
    let about: Vec<_> = found
        .iter()
        .map(|finding| (finding.host.as_str(), finding.fatal))
        .collect();
    assert_eq!(about, [("node2", false)]);
    insta::assert_snapshot!(found[0], @"
    node2: belongs to this cluster and is not in the cluster file: an install does not change it
      hint: remove it from the cluster with a cluster file that still has it with all its roles: kubexm node remove node2
    ");
}
