use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::*;
use crate::example::{Site, cluster};
use kubexm_host::Command;

/// The lease of a host's lock.
const LOCK: &str = "run/kubexm.lock";

/// How the work of a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    Stopped,
    Panicked,
}

fn change<'a>(operation: Operation, cluster: &'a Cluster, state: &'a Path) -> Change<'a> {
    Change {
        operation,
        cluster,
        state,
        lock: String::new(),
    }
}

/// Runs a command on a site. Returns whether it ended with a panic, or its result.
async fn ended(site: &Site, operation: Operation, end: End) -> Option<Result<(), CommandError>> {
    let (cluster, state, stop) = (cluster(), site.state("own"), Stop::new());
    let change = change(operation, &cluster, &state);
    let connect = async |_: &Events| Ok((site.hosts.clone(), ()));
    let work = async |session: Session<'_>, ()| {
        for host in ["node1", "node2"] {
            assert!(site.at(host, LOCK).exists(), "{operation}: {host}");
        }
        match end {
            End::Done => Ok(()),
            End::Failed => Err(CommandError::refused("failed")),
            End::Stopped => {
                session.stop.cancel();
                let waiting = async { std::future::pending().await };
                unless_stopped(session.stop, waiting).await
            }
            End::Panicked => panic!("a defect"),
        }
    };
    let running = change.run(&site.events, &stop, connect, work);
    AssertUnwindSafe(running).catch_unwind().await.ok()
}

#[tokio::test]
async fn locks_are_released_after_each_end_of_each_command() {
    let site = Site::new();
    for operation in begun::Operation::ALL.iter().copied() {
        for end in [End::Done, End::Failed, End::Stopped, End::Panicked] {
            let result = ended(&site, operation, end).await;
            match end {
                End::Done => assert!(matches!(result, Some(Ok(())))),
                End::Failed | End::Stopped => assert!(matches!(result, Some(Err(_)))),
                End::Panicked => assert!(result.is_none()),
            }
            for host in ["node1", "node2"] {
                let lock = site.at(host, LOCK);
                assert!(!lock.exists(), "{operation}, {end:?}: {host} stays locked");
            }
        }
    }
}

#[tokio::test]
async fn command_that_must_wait_connects_to_no_host() {
    let site = Site::new();
    let (cluster, state, stop) = (cluster(), site.state("own"), Stop::new());
    std::fs::create_dir_all(&state).unwrap();
    let record = r#"{"from": "1.35.4", "to": "1.36.3", "archives": {}}"#;
    std::fs::write(state.join("upgrade.json"), record).unwrap();
    let change = change(Operation::RegistryRemove, &cluster, &state);
    let connect =
        async |_: &Events| -> Result<(Hosts, ()), CommandError> { panic!("it must not connect") };
    let work = async |_: Session<'_>, ()| Ok(());
    let refused = change.run(&site.events, &stop, connect, work).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.starts_with("cannot run registry remove now: an upgrade from Kubernetes 1.35.4"),
        "{refused}"
    );
}

/// A join that a killed install left adds a member to etcd, and makes its host a node.
#[tokio::test]
async fn commands_of_an_earlier_run_end_before_the_work_begins() {
    let site = Site::new();
    let (cluster, stop) = (cluster(), Stop::new());
    std::fs::create_dir_all(site.at("node2", "run/kubexm")).unwrap();
    let lock = std::fs::File::create(site.at("node2", "run/kubexm/once.lock")).unwrap();
    for (operation, waits) in [(Operation::Install, true), (Operation::Reset, false)] {
        lock.lock().unwrap();
        let state = site.state("own");
        let change = change(operation, &cluster, &state);
        let connect = async |_: &Events| Ok((site.hosts.clone(), ()));
        let worked = std::cell::Cell::new(false);
        let work = async |_: Session<'_>, ()| {
            worked.set(true);
            Ok(())
        };
        let running = change.run(&site.events, &stop, connect, work);
        let ending = async {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            assert_eq!(worked.get(), !waits, "{operation}");
            lock.unlock().unwrap();
        };
        let (result, ()) = tokio::join!(running, ending);
        result.unwrap();
        assert!(worked.get());
    }
}

/// A laptop that slept went on, and wrote former files over those of the other run.
#[tokio::test]
async fn run_that_lost_its_lock_changes_no_host() {
    let site = Site::new();
    let (cluster, state, stop) = (cluster(), site.state("own"), Stop::new());
    let change = change(Operation::Install, &cluster, &state);
    let connect = async |_: &Events| Ok((site.hosts.clone(), ()));
    let touch = |path: &str| Command::script("touch \"$1\"", [path]).describe("touch a file");
    let work = async |session: Session<'_>, ()| {
        let name = cluster.hosts[0].name.clone();
        for hosts in [&session.hosts, &session.observed] {
            let done = hosts[&name].run(touch("/root-before")).await.unwrap();
            assert!(done.success(), "{done:?}");
        }
        let lock = site.at("node1", LOCK);
        let own = std::fs::read_to_string(&lock).unwrap();
        let of_other = own.replacen(own.lines().nth(1).unwrap(), "other", 1);
        for other in [Some(of_other), None] {
            match other {
                Some(text) => std::fs::write(&lock, text).unwrap(),
                None => std::fs::remove_file(&lock).unwrap(),
            }
            for hosts in [&session.hosts, &session.observed] {
                let refused = hosts[&name].run(touch("/root-after")).await.unwrap_err();
                let text = refused.to_string();
                assert!(
                    text.contains("another kubexm has worked on the host"),
                    "{text}"
                );
            }
        }
        Ok(())
    };
    change
        .run(&site.events, &stop, connect, work)
        .await
        .unwrap();
    assert!(site.at("node1", "root-before").exists());
    assert!(!site.at("node1", "root-after").exists());
}
