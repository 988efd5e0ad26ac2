use super::*;
use crate::identity::tests::cluster_with;
use crate::registry::relocate::course::{Course, Wanted, choose};

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
    }
}

fn wanted<'a>(from: &'a [HostName], to: &'a [HostName]) -> Wanted<'a> {
    let cancel = false;
    Wanted { to, from, cancel }
}

const CANCEL: Wanted<'static> = Wanted {
    to: &[],
    from: &[],
    cancel: true,
};

#[test]
fn move_that_has_begun_blocks_commands_that_decide_where_nodes_find_registries() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let cluster = with_registries(&["node1"]);
    let permits = |command: &str| permit(&cluster, state, command).is_ok();
    assert!(permits("install"));
    for stage in [Stage::Begun, Stage::Cancelled, Stage::Ending, Stage::Moved] {
        record(stage).save(state).unwrap();
        for command in [
            "install",
            "upgrade",
            "registry add",
            "certs renew",
            "node add",
        ] {
            assert!(!permits(command), "{command} at {stage:?}");
        }
        for command in ["registry move", "reset", "backup create"] {
            assert!(permits(command), "{command} at {stage:?}");
        }
        assert_eq!(permits("node remove"), stage == Stage::Begun);
    }
    let refused = permit(&cluster, state, "install").unwrap_err().to_string();
    assert_eq!(
        refused,
        "cannot run install now: the move of the registries from node1 to node2 is complete, but the cluster file still has \
         the former hosts\nhint: write registry: [node2] into spec.roleGroups of the cluster file"
    );
}

#[test]
fn record_ends_when_the_cluster_file_names_the_new_registries() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let edited = with_registries(&["node2"]);
    record(Stage::Ending).save(state).unwrap();
    assert!(permit(&edited, state, "install").is_err());
    record(Stage::Moved).save(state).unwrap();
    permit(&edited, state, "install").unwrap();
    assert!(!state.join(FILE).exists());
}

#[test]
fn another_move_waits_for_the_end_of_one_that_has_begun() {
    let cluster = with_registries(&["node1"]);
    let (one, two) = (names(&["node1"]), names(&["node2"]));
    let course = |wanted: Wanted<'_>, stage: Option<Stage>| {
        let chosen = choose(wanted, &cluster, stage.map(record));
        chosen
            .map(|(course, _)| course)
            .map_err(|error| error.to_string())
    };
    assert_eq!(course(wanted(&[], &two), None), Ok(Course::Move));
    assert_eq!(
        course(wanted(&one, &two), Some(Stage::Begun)),
        Ok(Course::Move)
    );
    assert_eq!(
        course(wanted(&[], &two), Some(Stage::Ending)),
        Ok(Course::End)
    );
    assert_eq!(course(CANCEL, Some(Stage::Begun)), Ok(Course::Cancel));
    assert_eq!(course(CANCEL, Some(Stage::Cancelled)), Ok(Course::Cancel));
    for (wanted, stage, hint) in [
        (
            wanted(&two, &one),
            Stage::Begun,
            "--from node1 --to node2, or undo it",
        ),
        (
            wanted(&one, &two),
            Stage::Cancelled,
            "kubexm registry move --cancel",
        ),
        (
            CANCEL,
            Stage::Ending,
            "complete the move with kubexm registry move --from node1 --to node2",
        ),
        (CANCEL, Stage::Moved, "write registry: [node2]"),
    ] {
        let refused = course(wanted, Some(stage)).unwrap_err();
        assert!(refused.contains(hint), "{refused}");
    }
    let nothing = course(CANCEL, None).unwrap_err();
    assert!(nothing.contains("none has begun"), "{nothing}");
}

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
