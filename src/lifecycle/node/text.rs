//! The plan of a removal, and what the user does afterwards, for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use super::removal::Prepared;
use crate::addition::words;
use kubexm_config::{Cluster, HostMention};
use kubexm_deploy::DeployError;
use kubexm_deploy::removal::{Leaving, RemovalInputs};
use kubexm_engine::plan::{Plan, Task};
use kubexm_session::begun::joined;
use kubexm_types::{HostName, Message};

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
    if let Some(numbers) = &prepared.quorum.change {
        let _ = writeln!(text, "members of etcd: {numbers}");
    }
    text.push_str(&points_of_no_return(&prepared.leaving).join("\n"));
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

/// Returns until when hosts can come back, a line for those with the same answer.
fn points_of_no_return(leaving: &[Leaving]) -> Vec<String> {
    let of = |is: fn(&Leaving) -> bool| -> Vec<&HostName> {
        let hosts = leaving.iter().filter(|host| is(host));
        hosts.map(|host| &host.spec.name).collect()
    };
    let lost = of(|host| host.is_lost);
    let members = of(|host| !host.is_lost && host.has_member);
    let others = of(|host| !host.is_lost && !host.has_member);
    let cordoned = of(|host| !host.is_lost && !host.has_member && host.is_node);
    let undo = if cordoned.is_empty() {
        format!(
            "kubexm node add {} undoes everything",
            words(others.iter().copied())
        )
    } else {
        format!(
            "kubexm node add {} and kubectl uncordon {} undo everything",
            words(others.iter().copied()),
            words(cordoned)
        )
    };
    let points = [
        (lost, "the first step: what is lost cannot come back as it was".to_owned()),
        (
            members,
            "the first step: kubexm node add refuses a member of etcd whose removal has begun, and the same command \
             completes it"
                .to_owned(),
        ),
        (others, format!("the end of the programs on each host; until then, {undo}")),
    ];
    let points = points.into_iter().filter(|(names, _)| !names.is_empty());
    points
        .map(|(names, point)| format!("point of no return for {}: {point}", joined(names)))
        .collect()
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
pub(super) fn without_contact(names: &[HostName], cluster: &Cluster) -> Message {
    let had_keys = names.iter().any(|name| cluster.is_control_plane(name));
    let keys = if had_keys {
        "; its disk has the keys of the CAs, of Secrets and of the registry"
    } else {
        ""
    };
    let names = joined(names);
    let text = format!(
        "{names}: removed without contact. If it starts again, its kubelet registers its node again{keys}"
    );
    let hint = "keep it off, or run the same command when it answers, which resets it";
    Message::new(text).hint(if had_keys {
        format!("{hint}; if others can have the disk, replace the CAs: kubexm certs rotate-ca")
    } else {
        hint.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::example::cluster_of;

    fn cluster() -> Cluster {
        let others = "worker: [node2, node3], registry: [registry1]";
        cluster_of(&format!("control-plane: [node1], {others}"), "", "")
    }

    fn points(names: &[(&str, bool)]) -> String {
        let cluster = cluster();
        let leaving = names.iter().map(|(name, is_lost)| {
            let spec = cluster.host(&name.parse().unwrap()).unwrap();
            Leaving::of(&cluster, spec, *is_lost)
        });
        points_of_no_return(&leaving.collect::<Vec<_>>()).join("\n")
    }

    /// Before, the text said that `node add` takes back a member of etcd, which it refuses.
    #[test]
    fn point_of_no_return_of_a_member_of_etcd_is_the_first_step() {
        insta::assert_snapshot!(points(&[("node1", false)]), @"point of no return for node1: the first step: kubexm node add refuses a member of etcd whose removal has begun, and the same command completes it");
    }

    #[test]
    fn hosts_without_a_member_come_back_until_they_are_reset() {
        insta::assert_snapshot!(points(&[("node2", false), ("registry1", false)]), @"point of no return for node2, registry1: the end of the programs on each host; until then, kubexm node add node2 registry1 and kubectl uncordon node2 undo everything");
        insta::assert_snapshot!(points(&[("registry1", false)]), @"point of no return for registry1: the end of the programs on each host; until then, kubexm node add registry1 undoes everything");
        insta::assert_snapshot!(points(&[("node2", true), ("node3", false)]), @"
        point of no return for node2: the first step: what is lost cannot come back as it was
        point of no return for node3: the end of the programs on each host; until then, kubexm node add node3 and kubectl uncordon node3 undo everything
        ");
    }

    #[test]
    fn disk_of_a_lost_control_plane_has_keys() {
        let said = |name: &str| without_contact(&[name.parse().unwrap()], &cluster()).to_string();
        assert!(said("node1").contains("the keys of the CAs, of Secrets and of the registry"));
        assert!(said("node1").ends_with("replace the CAs: kubexm certs rotate-ca"));
        assert!(!said("node2").contains("keys"));
    }
}
