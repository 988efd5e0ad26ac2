use std::collections::BTreeSet;

use super::*;
use crate::Stop;
use crate::begun::{RestoreRecord, RotationRecord};
use crate::change::{Change, Session};
use crate::example::{Site, cluster};
use kubexm_host::Command;
use kubexm_types::{Authority, Version};

const RECORD: &str = "var/lib/kubexm/begun.json";

/// Runs a command with a state directory. Its work changes a record, if at all, before and after a command on the hosts.
async fn run(
    site: &Site,
    state: &str,
    operation: Operation,
    before: impl Fn(&Path),
    after: impl Fn(&Path),
) -> Result<(), String> {
    let (cluster, state, stop) = (cluster(), site.state(state), Stop::new());
    let change = Change {
        operation,
        cluster: &cluster,
        state: &state,
        lock: String::new(),
    };
    let connect = async |_: &Events| Ok((site.hosts.clone(), ()));
    let work = async |session: Session<'_>, ()| {
        before(&state);
        for host in session.observed.values() {
            let name = host.name().as_str();
            let done = host.run(Command::new("true")).await?;
            assert!(done.success(), "{name}: {done:?}");
        }
        after(&state);
        Ok(())
    };
    let ended = change.run(&site.events, &stop, connect, work).await;
    ended.map_err(|error| error.to_string())
}

async fn idle(site: &Site, state: &str, operation: Operation) -> Result<(), String> {
    run(site, state, operation, |_| {}, |_| {}).await
}

fn recorded(site: &Site, host: &str) -> Option<Document> {
    let text = std::fs::read_to_string(site.at(host, RECORD)).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

/// Returns what `status` shows with a state directory.
fn shown(site: &Site, state: &str) -> String {
    let line = std::fs::read_to_string(site.at("node1", RECORD)).unwrap();
    let on_hosts = Documents::from([("node1".parse().unwrap(), line.as_str().into())]);
    let standing = elsewhere(&cluster(), &site.state(state), &on_hosts).unwrap();
    standing
        .iter()
        .map(|one| format!("{}\n", one.what))
        .collect()
}

fn copy(site: &Site, from: &str, to: &str) {
    let to = site.state(to);
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(site.state(from)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn rotation() -> RotationRecord {
    RotationRecord::new(BTreeSet::from([Authority::Kubernetes]))
}

fn begin_rotation(state: &Path) {
    rotation().save(state).unwrap();
}

fn begin_upgrade(state: &Path) {
    let (from, to) = (Version::new(1, 35, 4), Version::new(1, 36, 3));
    UpgradeRecord::new(&from, &to).save(state).unwrap();
}

/// An install with an older copy wrote the CA of before over both CAs, and the API was lost.
#[tokio::test]
async fn older_copy_of_the_state_directory_cannot_undo_a_rotation() {
    let site = Site::new();
    site.install("own").await.unwrap();
    copy(&site, "own", "before");
    idle(&site, "own", Operation::Install).await.unwrap();
    assert_eq!(recorded(&site, "node1"), None, "nothing has begun");
    let rotates = Operation::RotateCas;
    run(&site, "own", rotates, begin_rotation, |_| {})
        .await
        .unwrap();
    copy(&site, "own", "during");
    let has_begun = recorded(&site, "node1").unwrap();
    assert_eq!(has_begun.serial, 1);
    assert!(has_begun.records.contains_key(RotationRecord::FILE));
    assert_eq!(recorded(&site, "node2"), None, "a worker decides nothing");
    for operation in [Operation::Install, Operation::CertsRenew, rotates] {
        let refused = idle(&site, "before", operation).await.unwrap_err();
        let start =
            format!("cannot run {operation} now: rotation of the Kubernetes CA in phase 1 of 3");
        assert!(refused.starts_with(&start), "{refused}");
        let of = site.state("own").display().to_string();
        assert!(
            refused.contains(&of) && refused.contains("hint: "),
            "{refused}"
        );
        assert!(!site.at("node1", "run/kubexm.lock").exists());
    }
    for operation in [Operation::NodeRemove, Operation::BackupCreate] {
        idle(&site, "before", operation).await.unwrap();
        assert_eq!(recorded(&site, "node1").as_ref(), Some(&has_begun));
    }
    assert!(shown(&site, "before").starts_with("rotation of the Kubernetes CA in phase 1 of 3"));
    assert_eq!(shown(&site, "own"), "");
    let ends = |state: &Path| RotationRecord::remove(state).unwrap();
    run(&site, "own", rotates, |_| {}, ends).await.unwrap();
    let has_ended = recorded(&site, "node1").unwrap();
    assert_eq!((has_ended.serial, has_ended.records.len()), (2, 0));
    // This one would go on with a rotation that is complete.
    let refused = idle(&site, "during", rotates).await.unwrap_err();
    assert!(refused.contains("is older than the cluster"), "{refused}");
    assert!(refused.contains("remove rotation.json"), "{refused}");
    assert!(shown(&site, "during").contains("is older than the cluster"));
    ends(&site.state("during"));
    for state in ["during", "before", "own"] {
        idle(&site, state, Operation::Install).await.unwrap();
        assert_eq!(recorded(&site, "node1").as_ref(), Some(&has_ended));
    }
    // What one of them begins next, the others know.
    run(&site, "before", rotates, begin_rotation, |_| {})
        .await
        .unwrap();
    assert_eq!(recorded(&site, "node1").unwrap().serial, 3);
    idle(&site, "own", Operation::Install).await.unwrap_err();
    idle(&site, "before", rotates).await.unwrap();
}

#[tokio::test]
async fn upgrade_goes_on_with_another_state_directory_and_its_rollback_does_not() {
    let site = Site::new();
    site.install("own").await.unwrap();
    copy(&site, "own", "before");
    let upgrades = Operation::Upgrade;
    run(&site, "own", upgrades, begin_upgrade, |_| {})
        .await
        .unwrap();
    let refused = idle(&site, "before", Operation::Rollback)
        .await
        .unwrap_err();
    assert!(
        refused.contains("an upgrade from Kubernetes 1.35.4 to 1.36.3 has begun"),
        "{refused}"
    );
    idle(&site, "before", Operation::StatusFix)
        .await
        .unwrap_err();
    // These do not touch it.
    idle(&site, "before", Operation::RegistryAdd).await.unwrap();
    assert_eq!(recorded(&site, "node1").unwrap().serial, 1);
    let ends = |state: &Path| UpgradeRecord::remove(state).unwrap();
    run(&site, "before", upgrades, begin_upgrade, ends)
        .await
        .unwrap();
    let has_ended = recorded(&site, "node1").unwrap();
    assert_eq!((has_ended.serial, has_ended.records.len()), (3, 0));
    // Its snapshot is one of before the upgrade.
    let refused = idle(&site, "own", Operation::Rollback).await.unwrap_err();
    assert!(refused.contains("is older than the cluster"), "{refused}");
}

#[tokio::test]
async fn restore_takes_the_place_of_what_another_state_directory_began() {
    let site = Site::new();
    site.install("own").await.unwrap();
    copy(&site, "own", "before");
    run(&site, "own", Operation::RotateCas, begin_rotation, |_| {})
        .await
        .unwrap();
    let restores = Operation::BackupRestore;
    let begin = |state: &Path| {
        let record = RestoreRecord::new(kubexm_types::Digest::of(b"1"), false);
        record.save(state).unwrap();
    };
    run(&site, "before", restores, begin, |_| {}).await.unwrap();
    let has_begun = recorded(&site, "node1").unwrap();
    assert_eq!(
        has_begun.records.keys().collect::<Vec<_>>(),
        [RestoreRecord::FILE]
    );
    idle(&site, "own", Operation::RotateCas).await.unwrap_err();
    idle(&site, "own", Operation::Reset).await.unwrap();
}

/// A run that was killed between the record and the first command that follows it.
#[tokio::test]
async fn state_directory_that_is_ahead_of_the_hosts_goes_on() {
    let site = Site::new();
    site.install("own").await.unwrap();
    let rotates = Operation::RotateCas;
    run(&site, "own", rotates, begin_rotation, |_| {})
        .await
        .unwrap();
    let mut record = rotation();
    record.is_complete = true;
    record.save(&site.state("own")).unwrap();
    idle(&site, "own", rotates).await.unwrap();
    let has_begun = recorded(&site, "node1").unwrap();
    assert_eq!(has_begun.serial, 2);
    assert_eq!(has_begun.records[RotationRecord::FILE]["isComplete"], true);
    // A host whose record is lost gets it again, also if nothing has changed.
    std::fs::remove_file(site.at("node1", RECORD)).unwrap();
    idle(&site, "own", rotates).await.unwrap();
    assert_eq!(recorded(&site, "node1"), Some(has_begun));
}

#[tokio::test]
async fn record_of_a_host_that_cannot_be_read_is_refused_with_its_place() {
    let site = Site::new();
    site.install("own").await.unwrap();
    for text in ["x", "{}", "{\"serial\": -1}"] {
        std::fs::write(site.at("node1", RECORD), text).unwrap();
        let refused = idle(&site, "own", Operation::Install).await.unwrap_err();
        assert!(
            refused.contains("node1") && refused.contains(RECORD),
            "{refused}"
        );
        idle(&site, "own", Operation::Reset).await.unwrap();
    }
    // A worker decides nothing.
    std::fs::rename(site.at("node1", RECORD), site.at("node2", RECORD)).unwrap();
    idle(&site, "own", Operation::Install).await.unwrap();
}
