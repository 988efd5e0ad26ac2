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
        is_copied: false,
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
    let permits = |command: &str| permit(&file, state, command).is_ok();
    assert!(permits("install"));
    for stage in STAGES {
        record(stage).save(state).unwrap();
        for command in [
            "install",
            "upgrade",
            "registry add",
            "certs renew",
            "node add",
            "node remove",
        ] {
            assert!(!permits(command), "{command} at {stage:?}");
        }
        for command in ["registry move", "reset", "backup create"] {
            assert!(permits(command), "{command} at {stage:?}");
        }
    }
    let refused = permit(&file, state, "install").unwrap_err().to_string();
    assert_eq!(
        refused,
        "cannot run install now: the move of the registries from node1 to node2 is complete, and the cluster file does not have \
         the new hosts\nhint: write registry: [node2] into spec.roleGroups of the cluster file"
    );
    // A damaged record does not prevent the end of the cluster.
    std::fs::write(state.join(FILE), "x").unwrap();
    assert!(permits("reset") && !permits("install"));
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
        let permits = |file: &[&str]| permit(&with_registries(file), state, "node remove").is_ok();
        assert_eq!(
            (permits(&["node1"]), permits(&["node2"])),
            (before, after),
            "{stage:?}"
        );
    }
    // It was removed, and the file does not have it.
    let mut file = with_registries(&["node2"]);
    file.hosts.retain(|host| host.name.as_str() != "node1");
    permit(&file, state, "install").unwrap();
    assert!(!state.join(FILE).exists());
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
        assert!(permit(other, state, "install").is_err(), "{stage:?}");
        permit(own, state, "install").unwrap();
        assert!(!state.join(FILE).exists());
    }
    record(Stage::Ending).save(state).unwrap();
    assert!(permit(&new, state, "install").is_err());
    assert!(permit_new_hosts(&former, state).is_err());
    permit_new_hosts(&new, state).unwrap();
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

/// A plan cannot have two registries on a host. The record of such a move would stay.
#[test]
fn host_that_is_named_twice_is_refused_before_the_move_begins() {
    let cluster = with_registries(&["node1"]);
    let (one, two) = (names(&["node1"]), names(&["node2"]));
    for (from, to, twice) in [
        (&one, &names(&["node2", "node2"]), "node2"),
        (&names(&["node1", "node1"]), &two, "node1"),
    ] {
        let error = choose(wanted(from, to), &cluster, None).unwrap_err();
        let expected = format!(
            "cannot move registries: the host '{twice}' is named twice\nhint: name each host once"
        );
        assert_eq!(error.to_string(), expected);
    }
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
