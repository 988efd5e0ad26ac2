//! The plan of a removal, and what the user does afterwards, for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use super::joined;
use super::removal::Prepared;
use kubexm_config::{Cluster, HostMention};
use kubexm_deploy::DeployError;
use kubexm_deploy::removal::{Leaving, RemovalInputs};
use kubexm_engine::plan::{Plan, Task};
use kubexm_types::HostName;

/// Whether new hosts with the same names follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Remove,
    Replace,
}

/// Returns the plan: what happens to each host that leaves, and to the others.
pub(super) fn plan(
    cluster: &Cluster,
    prepared: &Prepared,
    given: &RemovalInputs<'_>,
    purpose: Purpose,
) -> Result<String, DeployError> {
    let names = joined(prepared.leaving.iter().map(|host| &host.spec.name));
    let continues = if prepared.continues {
        " (continues an interrupted removal)"
    } else {
        ""
    };
    let what = match purpose {
        Purpose::Remove => "removal from",
        Purpose::Replace => "replacement in",
    };
    let mut text = format!(
        "{what} the cluster '{}': {names}{continues}\n",
        cluster.name
    );
    let beginning = given.beginning();
    for host in prepared.leaving.iter().filter(|host| host.is_lost) {
        of_host(&mut text, cluster, host, None);
        steps(&mut text, of(&beginning, host));
        let _ = writeln!(text, "    - {}", reset(prepared, host));
        again(&mut text, host, purpose);
    }
    for host in prepared.leaving.iter().filter(|host| !host.is_lost) {
        of_host(&mut text, cluster, host, None);
        steps(&mut text, of(&beginning, host));
        let (departure, deletion) = (given.departure(host)?, given.deletion(host));
        steps(&mut text, departure.tasks.iter());
        let _ = writeln!(text, "    - {}", reset(prepared, host));
        steps(&mut text, deletion.tasks.iter());
        again(&mut text, host, purpose);
    }
    let others = joined(given.inputs.cluster.hosts.iter().map(|host| &host.name));
    let _ = writeln!(
        text,
        "  {others}\n    - apply the cluster file without {names}, as an install does: load balancers, registries, names, routes"
    );
    if let Some(numbers) = &prepared.quorum {
        let _ = writeln!(text, "members of etcd: {numbers}");
    }
    let _ = write!(text, "point of no return: {}", point_of_no_return(prepared));
    Ok(text)
}

fn of_host(text: &mut String, cluster: &Cluster, host: &Leaving, more: Option<&str>) {
    let name = &host.spec.name;
    let _ = writeln!(
        text,
        "  {name} ({}){}",
        crate::reset::roles(cluster, name),
        more.unwrap_or_default()
    );
}

/// Returns the tasks of a plan that belong to a host.
fn of<'a>(plan: &'a Plan, host: &'a Leaving) -> impl Iterator<Item = &'a Task> {
    let suffix = format!("-{}", host.spec.name);
    let verbs = ["drain", "address", "member", "delete"];
    plan.tasks.iter().filter(move |task| {
        let verb = task.name.strip_suffix(&suffix);
        verb.is_some_and(|verb| verbs.contains(&verb))
    })
}

fn steps<'a>(text: &mut String, tasks: impl Iterator<Item = &'a Task>) {
    for step in tasks.flat_map(|task| &task.steps) {
        let _ = writeln!(text, "    - {}", step.describe());
    }
}

/// Returns what happens on a host itself.
fn reset(prepared: &Prepared, host: &Leaving) -> String {
    let name = &host.spec.name;
    match prepared.changes.get(name) {
        None => format!("Leave {name} alone: it cannot be reached"),
        Some(0) => format!("Leave {name} alone: it has no change of kubexm"),
        Some(changes) => format!("Revert the {changes} changes of kubexm on {name}"),
    }
}

fn again(text: &mut String, host: &Leaving, purpose: Purpose) {
    if purpose == Purpose::Replace {
        let _ = writeln!(
            text,
            "    - Install {} again, as a new host of the cluster",
            host.spec.name
        );
    }
}

fn point_of_no_return(prepared: &Prepared) -> String {
    match prepared.leaving.iter().find(|host| !host.is_lost) {
        Some(host) if prepared.leaving.iter().all(|host| !host.is_lost) => format!(
            "the end of the programs of {0}; until then, kubexm node add {0} and kubectl uncordon {0} undo everything",
            host.spec.name
        ),
        _ => "the first step: what is lost cannot come back as it was".to_owned(),
    }
}

/// Returns the lines of the cluster file that the user changes after a removal.
pub(super) fn edits(file: &Path, mentions: &[HostMention]) -> Vec<String> {
    let source = std::fs::read_to_string(file).unwrap_or_default();
    let lines: BTreeMap<u64, &str> = (1..).zip(source.lines()).collect();
    let mut seen = BTreeSet::new();
    let mut edits = Vec::new();
    for mention in mentions
        .iter()
        .filter(|mention| seen.insert((mention.line, &mention.path, &mention.text)))
    {
        let line = lines.get(&mention.line).map_or("", |line| line.trim());
        let what = match (mention.path.as_str(), mention.rest.as_slice()) {
            ("spec.hosts", _) => format!("remove the host {}", mention.text),
            (_, []) => format!("remove {}", mention.text),
            (_, rest) => format!("write {} instead of {}", joined(rest), mention.text),
        };
        edits.push(format!(
            "{}:{}: {what}: {line}",
            file.display(),
            mention.line
        ));
    }
    edits
}

/// Returns what is left to do for hosts that were removed without contact.
pub(super) fn without_contact(names: &[HostName]) -> String {
    let names = joined(names);
    format!(
        "{names}: removed without contact. If it starts again, its kubelet registers its node again: keep it off, or run \
         the same command when it answers, which resets it"
    )
}
