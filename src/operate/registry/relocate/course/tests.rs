use super::*;
use kubexm_session::example::cluster_with;

fn names(hosts: &[&str]) -> Vec<HostName> {
    hosts.iter().map(|name| name.parse().unwrap()).collect()
}

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

const CANCEL: Wanted<'static> = Wanted {
    to: &[],
    from: &[],
    cancel: true,
};

fn wanted<'a>(from: &'a [HostName], to: &'a [HostName]) -> Wanted<'a> {
    let cancel = false;
    Wanted { to, from, cancel }
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
