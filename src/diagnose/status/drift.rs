//! Compares hosts with the plan of an install.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;

use super::Seen;
use super::report::{About, Problem};
use kubexm_bundle::{Bundle, BundleSet};
use kubexm_config::Cluster;
use kubexm_engine::plan::{Journal, Receipt, Record, StepError};
use kubexm_host::{Facts, HostError};
use kubexm_lifecycle::plan;
use kubexm_lifecycle::plan::{HostDiff, Reason};
use kubexm_session::begun::Operation;
use kubexm_session::certificates::CaEncryption;
use kubexm_session::session::{HostErrors, Hosts};
use kubexm_session::{CommandError, certificates, plan_inputs};
use kubexm_types::{HostName, Message};

/// The most steps that a problem names.
const SHOWN: usize = 3;
/// The hint of a host whose connection broke.
const ANSWERS: &str = "run the command again when the host answers";
/// The hint of a host that is slow or broken.
const AGAIN: &str = "run the command again; if it fails again, log in to the host and look for what is slow or broken";

/// Runs the checks of an install on the hosts whose facts are known, and nothing else.
///
/// # Errors
/// The bundle does not contain what the cluster needs, or a file of the state directory cannot be read or decrypted.
pub(super) async fn compare(
    cluster: &Cluster,
    bundle: &Arc<BundleSet>,
    state: &Path,
    encryption: Option<&CaEncryption>,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<Vec<HostDiff>, CommandError> {
    let known = hosts.iter().filter(|(name, _)| facts.contains_key(*name));
    let hosts = known.map(|(name, host)| (name.clone(), Arc::clone(host)));
    let certificates = certificates::preview(cluster, state, encryption)?;
    let mut inputs = plan_inputs::with_certificates(cluster, bundle, facts, certificates);
    plan_inputs::assume_installed(cluster, &mut inputs.hosts);
    Ok(plan::compare(&inputs, &hosts.collect()).await?.hosts)
}

/// Returns why a bundle is not the one that the hosts have; `None` if it is, or if the journal has no bundle.
pub(super) fn other_bundle(state: &Path, bundle: &Bundle) -> Option<String> {
    let given = bundle.lock_digest().to_string();
    // The bundles of these can have applications only.
    let except = [Operation::RegistryAdd, Operation::AppApply].map(Operation::name);
    let last = Journal::last_bundle(state, &except);
    let last = last.filter(|last| *last != given)?;
    Some(format!(
        "{}: this is not the bundle that the last command used on this cluster: its lock is {given}, and the journal in {} \
         has {last}",
        bundle.path().display(),
        state.display()
    ))
}

/// Returns the problems of the bundle, and of each host that differs or that was compared in part.
pub(super) fn problems(seen: &Seen<'_>) -> Vec<Problem> {
    let of_bundle = seen.other_bundle.as_ref().map(|what| {
        let hint = "pass the bundle of the last install or upgrade: the differences to another one are those of an upgrade, \
                    and `--fix` refuses it";
        Problem::new(About::Drift, what, hint)
    });
    let mut found: Vec<Problem> = of_bundle.into_iter().collect();
    for host in seen.drift.iter().flatten() {
        found.extend(lost(seen, host));
        found.extend(differs(host, seen.other_bundle.is_some()));
        found.extend(failed(host));
        found.extend(not_compared(host));
        found.extend(reported(host));
    }
    found
}

/// Returns whether the connection to a host broke before the comparison.
pub(super) fn is_lost(errors: &HostErrors, host: &HostName) -> bool {
    let mut errors = errors.iter();
    errors.any(|(name, error)| name == host && matches!(error, HostError::Unreachable { .. }))
}

/// Returns the problem of a host that was lost during the comparison. A host that was left out, because its facts are not
/// known, has a problem of its own, and so has one that was lost earlier.
fn lost(seen: &Seen<'_>, host: &HostDiff) -> Option<Problem> {
    let name = &host.host;
    let message = &host.unreachable.as_ref()?.cause;
    let mut findings = seen.findings.iter();
    let is_named = is_lost(&seen.errors, name)
        || findings.any(|one| one.about == About::Unreachable && one.host.as_ref() == Some(name));
    if is_named || !seen.facts.contains_key(name) {
        return None;
    }
    let (cause, hint) = separated(message);
    let what =
        format!("was lost before all of it was compared with the plan of an install: {cause}");
    let hint = hint.unwrap_or_else(|| ANSWERS.to_owned());
    Some(Problem::new(About::Unreachable, what, hint).on(name))
}

fn differs(host: &HostDiff, is_other_bundle: bool) -> Option<Problem> {
    let steps = some_steps(host, |reason| matches!(reason, Reason::Needed(_)))?;
    let what = format!("differs from the plan of an install: {steps}");
    let hint = if is_other_bundle {
        "`kubexm plan --diff` shows the differences"
    } else {
        "`kubexm plan --diff` shows the differences, and `kubexm status --fix` removes them"
    };
    Some(Problem::new(About::Drift, what, hint).on(&host.host))
}

/// Returns the problem of the steps whose check failed. Whether they differ is not known.
fn failed(host: &HostDiff) -> Option<Problem> {
    let steps = some_steps(host, |reason| matches!(reason, Reason::Failed(_)))?;
    let mut errors = host.differences.iter().filter_map(|one| match &one.reason {
        Reason::Failed(error) => Some(error),
        _ => None,
    });
    let (cause, hint) = separated(errors.next()?);
    let what = format!("could not compare {steps} with the plan of an install: {cause}");
    let hint = hint.unwrap_or_else(|| {
        "run the command again; if it fails again, correct the cause: `--fix` does not apply a step that was not compared"
            .to_owned()
    });
    Some(Problem::new(About::Drift, what, hint).on(&host.host))
}

fn not_compared(host: &HostDiff) -> Option<Problem> {
    let mut errors = host.differences.iter().filter_map(|one| match &one.reason {
        Reason::Unread(error) => Some(error),
        _ => None,
    });
    let (cause, hint) = separated(errors.next()?);
    let first = cause.lines().next().unwrap_or_default();
    let count = match errors.count() {
        0 => "one step was not compared".to_owned(),
        others => format!("{} steps were not compared", others + 1),
    };
    let what = format!("{count} with the plan of an install: {first}");
    let hint = hint
        .unwrap_or_else(|| "correct the cause; `kubexm plan --diff` names the steps".to_owned());
    Some(Problem::new(About::Drift, what, hint).on(&host.host))
}

/// Returns a problem for each difference that an install does not remove.
fn reported(host: &HostDiff) -> impl Iterator<Item = Problem> {
    host.differences.iter().filter_map(|one| {
        let Reason::Reported(text) = &one.reason else {
            return None;
        };
        let (text, hint) = separated(text);
        let what = format!("{}: {text}", one.step);
        let hint = hint.unwrap_or_else(|| {
            "do what the text says: neither an install nor `--fix` changes this".to_owned()
        });
        Some(Problem::new(About::Drift, what, hint).on(&host.host))
    })
}

/// Names the first steps that are in a list for such a reason; `None` if there is none.
fn some_steps(host: &HostDiff, is_one: impl Fn(&Reason) -> bool) -> Option<String> {
    let differences = host.differences.iter().filter(|one| is_one(&one.reason));
    let steps: Vec<&str> = differences.map(|one| one.step.as_str()).collect();
    let some = steps.chunks(SHOWN).next()?.join("; ");
    let more = if steps.len() > SHOWN { "; …" } else { "" };
    Some(format!("{some}{more}"))
}

/// Returns the text of a message, whose further lines are indented, and its hint.
fn separated(message: &Message) -> (String, Option<String>) {
    let lines = message.text.trim().lines().map(str::trim_end);
    let text = lines.collect::<Vec<_>>().join("\n    ");
    (text, message.hint.clone())
}

/// Returns a problem for each of these hosts whose receipt is lost or damaged, or was not read. They are installed.
pub(super) async fn receipts(hosts: &Hosts) -> Vec<Problem> {
    let reading = hosts.iter().map(async |(name, host)| {
        let problem = receipt(Receipt::read(host.as_ref()).await)?;
        Some(problem.on(name))
    });
    let found = join_all(reading).await;
    found.into_iter().flatten().collect()
}

/// Returns what is wrong with a receipt.
fn receipt(read: Result<Vec<Record>, StepError>) -> Option<Problem> {
    let error = match read {
        Ok(records) if records.is_empty() => {
            return Some(Problem::new(
                About::Drift,
                "has no receipt, so that a reset cannot revert the changes of kubexm",
                "restore /var/lib/kubexm/receipt.jsonl from a backup of the host",
            ));
        }
        Ok(_) => return None,
        Err(error) => error,
    };
    let message = Message::from(&error);
    Some(match error {
        StepError::Host(error) => {
            let (about, else_hint) = match error {
                HostError::Unreachable { .. } => (About::Unreachable, ANSWERS),
                _ => (About::Host, AGAIN),
            };
            let (cause, hint) = separated(&message);
            let hint = hint.unwrap_or_else(|| else_hint.to_owned());
            Problem::new(about, format!("its receipt was not read: {cause}"), hint)
        }
        _ => {
            let first = message.text.lines().next().unwrap_or_default();
            Problem::new(
                About::Drift,
                format!("its receipt cannot be used: {first}"),
                "correct the file, or restore it from a backup of the host",
            )
        }
    })
}

#[cfg(test)]
mod tests;
