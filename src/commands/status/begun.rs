//! Commands that have begun on the cluster and are not complete. A rotation of CAs has a line of its own in the report.

use std::path::Path;

use super::report::{About, Problem};
use crate::{CommandError, backup, node, registry, upgrade};
use kubexm_config::Cluster;

/// The name of the command that removes differences, in the journal, for its locks and in refusals.
pub(super) const FIX: &str = "status --fix";

/// Returns a problem for each command that was interrupted, and which others wait for.
pub(super) fn problems(cluster: &Cluster, state: &Path) -> Vec<Problem> {
    let refused = refusals(cluster, state).into_iter();
    let refused = refused.chain([node::no_replacement_is_open(state, FIX)]);
    refused
        .filter_map(Result::err)
        .map(|error| problem(&error))
        .collect()
}

/// Returns what refuses a fix, besides a rotation: an upgrade, a restore, and a move of the registries. Changes nothing.
pub(super) fn refusals(cluster: &Cluster, state: &Path) -> [Result<(), CommandError>; 3] {
    [
        upgrade::record::permit(cluster, state, FIX),
        backup::permit(state, FIX),
        registry::no_move_is_open(cluster, state, FIX),
    ]
}

fn problem(error: &CommandError) -> Problem {
    let text = error.to_string();
    let refused = format!("cannot run {} now: ", FIX);
    let text = text.strip_prefix(&refused).unwrap_or(&text);
    Problem::of_error(About::Command, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_are_not_complete_are_problems() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = crate::identity::tests::cluster();
        let found = || {
            let found = problems(&cluster, folder.path()).into_iter();
            found
                .map(|one| one.to_string())
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(found(), "");
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "replacement.json",
            r#"{"names": ["node9"], "removed": true}"#,
        );
        write("upgrade.json", "damaged");
        let text = found();
        assert!(text.contains("a replacement of node9 has begun"), "{text}");
        assert!(text.contains("kubexm node replace node9"), "{text}");
        // A damaged record is one as well.
        assert!(text.contains("upgrade.json"), "{text}");
    }
}
