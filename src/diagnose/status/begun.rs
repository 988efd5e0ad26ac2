//! Commands that have begun on the cluster and are not complete. A rotation of CAs has a line of its own in the report.

use std::collections::BTreeMap;
use std::path::Path;

use super::report::{About, Problem};
use kubexm_config::Cluster;
use kubexm_host::Facts;
use kubexm_session::begun::{self, Begun, Operation, Standing};
use kubexm_types::HostName;

/// Returns a problem for each command that was interrupted, and which others wait for.
pub(super) fn problems(
    cluster: &Cluster,
    state: &Path,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Problem> {
    let fix = Operation::StatusFix;
    let waits = Begun::ALL.iter().filter_map(|begun| match begun {
        Begun::Rotation => None,
        Begun::Restore | Begun::Move | Begun::Upgrade => Some(begun.refusal(fix, cluster, state)),
        Begun::Replacement => Some(begun.standing(cluster, state)),
    });
    let on_hosts = facts
        .iter()
        .filter_map(|(name, facts)| Some((name.clone(), facts.begun.as_deref()?.into())));
    let elsewhere = match begun::elsewhere(cluster, state, &on_hosts.collect()) {
        Ok(standing) => standing.into_iter().map(|one| Ok(Some(one))).collect(),
        Err(error) => vec![Err(error)],
    };
    let begun = waits.chain(elsewhere);
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
        let mut facts = Facts::default();
        let found = |facts: &Facts| {
            let facts = [("node1".parse().unwrap(), facts.clone())].into();
            let found = problems(&cluster, folder.path(), &facts).into_iter();
            found
                .map(|one| one.to_string())
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(found(&facts), "");
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "replacement.json",
            r#"{"names": ["node9"], "removed": true}"#,
        );
        write("upgrade.json", "damaged");
        let text = found(&facts);
        assert!(text.contains("a replacement of node9 has begun"), "{text}");
        assert!(text.contains("kubexm node replace node9"), "{text}");
        // A damaged record is one as well.
        assert!(text.contains("upgrade.json"), "{text}");
        facts.begun = Some("damaged".to_owned());
        let text = found(&facts);
        assert!(text.contains("cannot read what node1 records"), "{text}");
    }
}
