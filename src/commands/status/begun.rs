//! Commands that have begun on the cluster and are not complete. A rotation of CAs has a line of its own in the report.

use std::path::Path;

use super::report::{About, Problem};
use crate::{CommandError, backup, node, registry, upgrade};
use kubexm_config::Cluster;

/// What the texts of refusals begin with here.
const PREFIX: &str = "cannot run status --fix now: ";

/// Returns a problem for each command that was interrupted, and which others wait for.
pub(super) fn problems(cluster: &Cluster, state: &Path) -> Vec<Problem> {
    let command = "status --fix";
    let refusals = [
        upgrade::record::permit(cluster, state, command),
        backup::permit(state, command),
        registry::no_move_is_open(cluster, state, command),
        node::no_replacement_is_open(state, command),
    ];
    let refusals = refusals.into_iter().filter_map(Result::err);
    refusals.map(|error| problem(&error)).collect()
}

fn problem(error: &CommandError) -> Problem {
    let text = error.to_string();
    let text = text.strip_prefix(PREFIX).unwrap_or(&text);
    let (what, hint) = text.split_once("\nhint: ").unwrap_or((text, ""));
    Problem::new(About::Command, what, hint)
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
        // A record that cannot be read is one as well.
        assert!(text.contains("upgrade.json"), "{text}");
    }
}
