use super::*;
use crate::CommandError;
use crate::begun::{self, Operation};
use crate::example::cluster_with;

/// As a command that has the lock of the state directory.
fn permit(cluster: &Cluster, state: &Path, operation: Operation) -> Result<(), CommandError> {
    begun::permit(operation, cluster, state)?;
    begun::forget_complete_move(operation, cluster, state)
}

fn names(hosts: &[&str]) -> Vec<HostName> {
    hosts.iter().map(|name| name.parse().unwrap()).collect()
}

/// A cluster of node1 and node2.
fn with_registries(hosts: &[&str]) -> Cluster {
    let mut cluster = cluster_with("registry: {dataDir: /srv/registry}");
    cluster.roles.registry = names(hosts);
    cluster
}

fn record(stage: Stage) -> MoveRecord {
    MoveRecord {
        before: names(&["node1"]),
        from: names(&["node1"]),
        to: names(&["node2"]),
        stage,
        is_copied: false,
    }
}

const STAGES: [Stage; 5] = [
    Stage::Begun,
    Stage::Cancelled,
    Stage::Undone,
    Stage::Ending,
    Stage::Moved,
];

#[test]
fn move_that_has_begun_blocks_commands_that_decide_where_nodes_find_registries() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let file = with_registries(&["node1", "node2"]);
    let permits = |operation: Operation| permit(&file, state, operation).is_ok();
    assert!(permits(Operation::Install));
    for stage in STAGES {
        record(stage).save(state).unwrap();
        for command in [
            Operation::Install,
            Operation::Upgrade,
            Operation::RegistryAdd,
            Operation::CertsRenew,
            Operation::NodeAdd,
            Operation::NodeRemove,
        ] {
            assert!(!permits(command), "{command} at {stage:?}");
        }
        for command in [
            Operation::RegistryMove,
            Operation::Reset,
            Operation::BackupCreate,
        ] {
            assert!(permits(command), "{command} at {stage:?}");
        }
    }
    let refused = permit(&file, state, Operation::Install)
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "cannot run install now: the move of the registries from node1 to node2 is complete, and the cluster file does not have \
         the new hosts\nhint: write registry: [node2] into spec.roleGroups of the cluster file"
    );
    // A damaged record does not prevent the end of the cluster.
    std::fs::write(state.join(MoveRecord::FILE), "x").unwrap();
    assert!(permits(Operation::Reset) && !permits(Operation::Install));
}

#[test]
fn lost_host_leaves_while_the_registries_of_the_file_have_all_images() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    for (stage, before, after) in [
        (Stage::Begun, true, false),
        (Stage::Cancelled, true, false),
        (Stage::Ending, false, true),
    ] {
        record(stage).save(state).unwrap();
        let permits =
            |file: &[&str]| permit(&with_registries(file), state, Operation::NodeRemove).is_ok();
        assert_eq!(
            (permits(&["node1"]), permits(&["node2"])),
            (before, after),
            "{stage:?}"
        );
    }
    // It was removed, and the file does not have it.
    let mut file = with_registries(&["node2"]);
    file.hosts.retain(|host| host.name.as_str() != "node1");
    permit(&file, state, Operation::Install).unwrap();
    assert!(!state.join(MoveRecord::FILE).exists());
}

#[test]
fn record_ends_when_the_cluster_file_names_the_registries() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let (former, new) = (with_registries(&["node1"]), with_registries(&["node2"]));
    for (stage, own, other) in [
        (Stage::Moved, &new, &former),
        (Stage::Undone, &former, &new),
    ] {
        record(stage).save(state).unwrap();
        assert!(
            permit(other, state, Operation::Install).is_err(),
            "{stage:?}"
        );
        permit(own, state, Operation::Install).unwrap();
        assert!(!state.join(MoveRecord::FILE).exists());
    }
    record(Stage::Ending).save(state).unwrap();
    assert!(permit(&new, state, Operation::Install).is_err());
    assert!(permit_new_hosts(&former, state).is_err());
    permit_new_hosts(&new, state).unwrap();
}

/// A plan cannot have two registries on a host. The record of such a move would stay.
#[test]
fn host_that_left_the_cluster_does_not_take_part_in_the_move() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let mut cluster = with_registries(&["node1"]);
    record(Stage::Begun).save(state).unwrap();
    cluster.hosts.retain(|host| host.name.as_str() != "node2");
    let record = MoveRecord::load(&cluster, state).unwrap().unwrap();
    assert_eq!(record.after(), names(&[]));
    assert!(record.hint().contains("undo it"), "{}", record.hint());
    assert!(
        record
            .title()
            .ends_with("to hosts that have left the cluster")
    );
}
