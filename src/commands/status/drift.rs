//! Compares hosts with the plan of an install.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;

use super::report::{About, Problem};
use crate::plan::{HostDiff, Reason};
use crate::session::Hosts;
use crate::{CommandError, certificates, plan, plan_inputs};
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_engine::plan::{Receipt, StepError};
use kubexm_host::Facts;
use kubexm_types::HostName;

/// The most steps that a problem names.
const SHOWN: usize = 3;

/// Runs the checks of an install on the hosts whose facts are known, and nothing else.
///
/// # Errors
/// The bundle does not contain what the cluster needs, or a file of the state directory cannot be read.
pub(super) async fn compare(
    cluster: &Cluster,
    bundle: &Arc<BundleSet>,
    state: &Path,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<Vec<HostDiff>, CommandError> {
    let known = hosts.iter().filter(|(name, _)| facts.contains_key(*name));
    let hosts = known.map(|(name, host)| (name.clone(), Arc::clone(host)));
    let certificates = certificates::preview(cluster, state)?;
    let mut inputs = plan_inputs::with_certificates(cluster, bundle, facts, certificates);
    plan_inputs::assume_installed(cluster, &mut inputs.hosts);
    Ok(plan::compare(&inputs, &hosts.collect()).await?.hosts)
}

/// Returns the problems of each host that differs, or that was compared in part. An unreachable host is another problem.
pub(super) fn problems(hosts: &[HostDiff]) -> Vec<Problem> {
    let found = hosts
        .iter()
        .flat_map(|host| [differs(host), not_compared(host)]);
    found.flatten().collect()
}

fn differs(host: &HostDiff) -> Option<Problem> {
    let differences = host.differences.iter();
    let changes = differences
        .filter(|difference| matches!(difference.reason, Reason::Needed(_) | Reason::Failed(_)));
    let steps: Vec<&str> = changes.map(|difference| difference.step.as_str()).collect();
    let some = steps.chunks(SHOWN).next()?.join("; ");
    let more = if steps.len() > SHOWN { "; …" } else { "" };
    let what = format!("differs from the plan of an install: {some}{more}");
    let hint = "`kubexm plan --diff` shows the differences, and `kubexm status --fix` removes them";
    Some(Problem::new(About::Drift, what, hint).on(&host.host))
}

fn not_compared(host: &HostDiff) -> Option<Problem> {
    let mut errors = host.differences.iter().filter_map(|one| match &one.reason {
        Reason::Unread(error) => Some(error),
        _ => None,
    });
    let error = errors.next()?;
    let first = error.lines().next().unwrap_or_default();
    let count = match errors.count() {
        0 => "one step was not compared".to_owned(),
        others => format!("{} steps were not compared", others + 1),
    };
    let what = format!("{count} with the plan of an install: {first}");
    let hint = "correct the cause; `kubexm plan --diff` names the steps";
    Some(Problem::new(About::Drift, what, hint).on(&host.host))
}

/// Returns a problem for each of these hosts whose receipt is lost or damaged. They are installed.
pub(super) async fn receipts(hosts: &Hosts) -> Vec<Problem> {
    let reading = hosts.iter().map(async |(name, host)| {
        let (what, hint) = match Receipt::read(host.as_ref()).await {
            Ok(records) if records.is_empty() => (
                "has no receipt, so that a reset cannot revert the changes of kubexm".to_owned(),
                "restore /var/lib/kubexm/receipt.jsonl from a backup of the host",
            ),
            // A host that does not answer is another problem.
            Ok(_) | Err(StepError::Host(_)) => return None,
            Err(error) => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                let what = format!("its receipt cannot be used: {first}");
                (
                    what,
                    "correct the file, or restore it from a backup of the host",
                )
            }
        };
        Some(Problem::new(About::Drift, what, hint).on(name))
    });
    let found = join_all(reading).await;
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::Site;
    use crate::plan::{Difference, TaskId};

    #[tokio::test]
    async fn lost_and_damaged_receipts_are_problems() {
        let site = Site::new();
        site.install("state").await.unwrap();
        assert_eq!(receipts(&site.hosts).await, []);
        let receipt = |host| site.at(host, "var/lib/kubexm/receipt.jsonl");
        std::fs::remove_file(receipt("node1")).unwrap();
        std::fs::write(receipt("node2"), "{\"step\": 1}\n").unwrap();
        let found = receipts(&site.hosts).await;
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found[0].starts_with("node1: has no receipt, "), "{found:?}");
        let damaged = "node2: its receipt cannot be used: line 1 of /var/lib/kubexm/receipt.jsonl is damaged: ";
        assert!(found[1].starts_with(damaged), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn only_what_an_install_would_change_is_a_problem() {
        let host = |name: &str, reasons: Vec<Reason>| HostDiff {
            host: name.parse().unwrap(),
            unchanged: 5,
            differences: reasons
                .into_iter()
                .enumerate()
                .map(|(at, reason)| Difference {
                    task: TaskId(format!("os/prepare@{name}")),
                    id: format!("file /etc/{at}"),
                    step: format!("Write /etc/{at}"),
                    reason,
                })
                .collect(),
            actions: 1,
            unreachable: None,
        };
        let depends = Reason::DependsOn(vec![TaskId("a".to_owned())]);
        let needed = || Reason::Needed("differs".to_owned());
        let unread =
            || Reason::Unread("task a could not read a value: no answer\nof node9".to_owned());
        let failed = Reason::Failed("timed out".to_owned());
        let lost = HostDiff {
            unreachable: Some("there is no connection".to_owned()),
            ..host("node3", Vec::new())
        };
        let found = problems(&[
            host("node1", vec![depends, Reason::Reported("x".to_owned())]),
            host("node4", vec![unread(), unread()]),
            host("node2", vec![needed(), failed, needed(), needed()]),
            lost,
        ]);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(found.join("\n"), @"
        node4: 2 steps were not compared with the plan of an install: task a could not read a value: no answer
          hint: correct the cause; `kubexm plan --diff` names the steps
        node2: differs from the plan of an install: Write /etc/0; Write /etc/1; Write /etc/2; …
          hint: `kubexm plan --diff` shows the differences, and `kubexm status --fix` removes them
        ");
    }
}
