use std::sync::{Arc, Mutex};

use super::*;
use kubexm_operate::conformance;
use kubexm_session::begun::StateRecord;
use kubexm_session::example::{Site, cluster, cluster_with, without_ids};
use kubexm_types::event::Listener;

async fn reset_locked(
    cluster: &Cluster,
    state: &Path,
    hosts: &Hosts,
    lost: Option<LostCluster>,
    events: &Events,
    stop: &Stop,
) -> Result<usize, CommandError> {
    let nothing = async |_: &[HostReset]| Ok(());
    super::reset_locked(cluster, state, hosts, lost, nothing, events, stop).await
}

async fn reset_on(site: &Site, state: &str, hosts: &Hosts) -> Result<usize, CommandError> {
    let _journal = site.journal(state);
    let state = site.state(state);
    reset_locked(&cluster(), &state, hosts, None, &site.events, &Stop::new()).await
}

#[tokio::test]
async fn nothing_is_reverted_before_the_user_confirms_and_etcd_is_saved() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let _journal = site.journal("state");
    let (state, cluster, stop) = (site.state("state"), cluster(), Stop::new());
    let refuse = async |resets: &[HostReset]| {
        assert_eq!(resets.len(), 2);
        let text = survey::survey(&cluster, &site.hosts, resets, &[]).await;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "a reset deletes the cluster 'example' and its data from these hosts:"
        );
        assert!(
            lines[1].starts_with("  node1: control-plane") && lines[1].contains("1 changes"),
            "{text}"
        );
        Err(CommandError::configuration("the reset was not confirmed"))
    };
    let hosts = &site.hosts;
    let reset = super::reset_locked(&cluster, &state, hosts, None, refuse, &site.events, &stop);
    let error = reset.await.unwrap_err().to_string();
    assert!(error.starts_with("the reset was not confirmed"), "{error}");
    assert!(site.is_installed("node1") && site.is_installed("node2"));
    assert!(state.join("pki").exists());
}

/// Before, the free script of the second host ran, and the first host was already reset.
#[tokio::test]
async fn forged_receipt_of_one_host_protects_all_hosts() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let receipt = site.at("node2", "var/lib/kubexm/receipt.jsonl");
    let mut text = std::fs::read_to_string(&receipt).unwrap();
    text.push_str(
        r#"{"step":"evil","undo":{"kind":"script","title":"Stop","script":"touch /etc/pwned","arguments":[]}}"#,
    );
    std::fs::write(&receipt, text).unwrap();
    let error = reset_on(&site, "state", &site.hosts).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is not an undo script of kubexm"),
        "{error}"
    );
    assert!(site.is_installed("node1") && site.is_installed("node2"));
    assert!(!site.at("node2", "etc/pwned").exists());
    assert!(site.state("state").join("pki").exists());
}

#[tokio::test]
async fn hooks_run_around_the_reset_of_each_host() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let before = "{name: drain, phase: reset, when: before, content: 'test ! -e /etc/fail && cp /etc/installed /etc/before'}";
    let after = "{name: tidy, phase: reset, when: after, content: 'test ! -e /etc/installed && : >/etc/after'}";
    let cluster = cluster_with(&format!("system: {{hooks: [{before}, {after}]}}"));
    let reset = async || {
        let _journal = site.journal("state");
        let (state, stop) = (site.state("state"), Stop::new());
        self::reset_locked(&cluster, &state, &site.hosts, None, &site.events, &stop).await
    };
    std::fs::write(site.at("node2", "etc/fail"), "").unwrap();
    let error = reset().await.unwrap_err().to_string();
    assert!(
        error.contains("the hook 'drain' on node2 failed with exit status 1"),
        "{error}"
    );
    assert!(!site.is_installed("node1") && site.is_installed("node2"));
    let ran = |host, name: &str| site.at(host, &format!("etc/{name}")).exists();
    assert!(ran("node1", "before") && ran("node1", "after") && !ran("node2", "after"));
    std::fs::remove_file(site.at("node2", "etc/fail")).unwrap();
    reset().await.unwrap();
    assert!(!site.is_installed("node2") && ran("node2", "after"));
}

/// The titles of reverted changes, with the hosts.
#[derive(Default)]
struct Titles(Mutex<Vec<String>>);

impl Listener for Titles {
    fn on(&self, event: &Event) {
        if let Event::Step { host, step, .. } = event {
            self.0.lock().unwrap().push(format!("{host}: {step}"));
        }
    }
}

/// Before, a control plane that was lost in this moment ended the reset of all hosts.
#[tokio::test]
async fn tests_of_a_killed_run_are_ended_as_a_change_of_their_host() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let hosts = site.only("node1");
    for host in [&hosts, &hosts].into_iter().flat_map(Hosts::values) {
        conformance::record(host).await.unwrap();
    }
    std::fs::create_dir(site.at("node1", "var/lib/kubexm/conformance")).unwrap();
    let (titles, cluster, stop) = (Arc::new(Titles::default()), cluster(), Stop::new());
    let events = Events::new(Arc::clone(&titles) as _);
    let _journal = site.journal("state");
    let state = site.state("state");
    let reset = reset_locked(&cluster, &state, &hosts, None, &events, &stop);
    assert_eq!(reset.await.unwrap(), 2);
    let titles = titles.0.lock().unwrap();
    assert_eq!(
        *titles,
        [
            "node1: End conformance tests and remove their files",
            "node1: Remove /etc/installed",
        ]
    );
    assert!(!site.at("node1", "var/lib/kubexm").exists());
}

/// Before, a reset with the file of cluster B removed cluster A.
#[tokio::test]
async fn hosts_of_another_cluster_are_not_reset() {
    let site = Site::new();
    site.install("first").await.unwrap();
    let refused = reset_on(&site, "second", &site.hosts).await.unwrap_err();
    insta::assert_snapshot!(without_ids(&site, &refused.to_string()), @"
    the hosts are not ready; nothing was touched
    node1: belongs to cluster 'example' [id], created [time] the state directory [site]/second has no record of a cluster
      hint: pass the state directory of that cluster with --state, or correct the address of the host in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is lost, frees the host
    node2: belongs to cluster 'example' [id], created [time] the state directory [site]/second has no record of a cluster
      hint: pass the state directory of that cluster with --state, or correct the address of the host in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is lost, frees the host
    ");
    assert!(site.is_installed("node1") && site.is_installed("node2"));
}

#[tokio::test]
async fn hosts_of_a_lost_state_directory_are_reset_by_their_id() {
    let site = Site::new();
    site.install("lost").await.unwrap();
    let record = ClusterRecord::read(&site.state("lost")).unwrap().unwrap();
    std::fs::remove_dir_all(site.state("lost")).unwrap();
    let (state, stop) = (site.state("second"), Stop::new());
    drop(site.journal("second"));
    let reset = async |lost: &str| {
        let lost = Some(lost.parse().unwrap());
        reset_locked(&cluster(), &state, &site.hosts, lost, &site.events, &stop).await
    };
    reset("0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11")
        .await
        .unwrap_err();
    reset("none").await.unwrap_err();
    assert!(site.is_installed("node1"));
    let reverted = reset(&record.identity().id.to_string()).await;
    assert_eq!(reverted.unwrap(), 2);
    assert!(!site.is_installed("node1"));
    // The ID of another cluster is refused where the state directory has a record.
    site.install("second").await.unwrap();
    reset(&record.identity().id.to_string()).await.unwrap_err();
    assert!(site.is_installed("node1"));
}

#[tokio::test]
async fn keys_of_a_cluster_are_removed_with_its_last_host() {
    let site = Site::new();
    site.install("state").await.unwrap();
    let pki = site.state("state").join("pki");
    let reverted = reset_on(&site, "state", &site.only("node1")).await;
    assert_eq!(reverted.unwrap(), 1);
    assert!(!site.is_installed("node1") && site.is_installed("node2"));
    assert!(pki.exists() && site.state("state").join("admin.conf").exists());
    assert!(!site.at("node1", "var/lib/kubexm").exists());
    reset_on(&site, "state", &site.hosts).await.unwrap();
    assert!(!site.is_installed("node2"));
    for name in ["pki", "admin.conf", ClusterRecord::FILE] {
        assert!(!site.state("state").join(name).exists(), "{name}");
    }
    // The hosts are free for another cluster.
    site.install("other").await.unwrap();
}

/// Before, a reset of other machines, or of machines that were installed again, removed the keys.
#[tokio::test]
async fn reset_of_hosts_without_a_receipt_keeps_the_keys() {
    let (site, elsewhere) = (Site::new(), Site::new());
    site.install("state").await.unwrap();
    assert_eq!(reset_on(&site, "state", &elsewhere.hosts).await.unwrap(), 0);
    assert!(site.state("state").join("pki").exists());
    assert!(site.state("state").join("admin.conf").exists());
    assert!(site.is_installed("node1"));
}

#[tokio::test]
async fn cluster_of_an_earlier_version_is_reset_by_its_state_directory_only() {
    let site = Site::new();
    site.install("state").await.unwrap();
    site.write_ca("state");
    site.as_earlier("state");
    reset_on(&site, "other", &site.hosts).await.unwrap_err();
    assert!(site.is_installed("node1"));
    assert_eq!(reset_on(&site, "state", &site.hosts).await.unwrap(), 2);
    assert!(!site.is_installed("node1") && !site.state("state").join("pki").exists());
}
