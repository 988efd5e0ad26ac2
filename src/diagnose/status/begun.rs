//! Commands that have begun on the cluster and are not complete. A rotation of CAs has a line of its own in the report.

use std::path::Path;

use super::report::{About, Problem};
use kubexm_config::Cluster;
use kubexm_session::begun::{Begun, Operation, Standing};

/// Returns a problem for each command that was interrupted, and which others wait for.
pub(super) fn problems(cluster: &Cluster, state: &Path) -> Vec<Problem> {
    let fix = Operation::StatusFix;
    let waits = [Begun::Upgrade, Begun::Restore, Begun::Move]
        .map(|begun| begun.refusal(fix, cluster, state));
    let replacement = Begun::Replacement.standing(cluster, state);
    let begun = waits.into_iter().chain([replacement]);
    begun
        .filter_map(|one| {
            one.map(|begun| begun.map(described))
                .unwrap_or_else(|error| Some(Problem::of_error(About::Command, &error)))
        })
        .collect()
}

fn described(begun: Standing) -> Problem {
    Problem::new(About::Command, begun.what, begun.hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_are_not_complete_are_problems() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = kubexm_session::example::cluster();
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
