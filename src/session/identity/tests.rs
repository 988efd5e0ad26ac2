//! Install and reset on directories that represent hosts.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::begun::Operation;
use crate::change;
use crate::example::{Site, cluster, without_ids};
use kubexm_engine::cluster::HostLocks;
use kubexm_engine::plan::{Receipt, Stop};

#[tokio::test]
async fn state_directory_hosts_and_receipts_carry_one_id() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let record = ClusterRecord::read(&site.state("state")).unwrap().unwrap();
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
    let mut other = cluster();
    other.name = "other".to_owned();
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
    let record = ClusterRecord::read(&site.state("state")).unwrap().unwrap();
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
