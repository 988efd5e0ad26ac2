//! A member's start: with the others for the first time, again with its data, or as a new member in
//! place of one whose data is gone.

use std::time::Duration;

use super::member::{INITIAL, Place, UNIT, read_at_start};
use super::{CLIENT_PORT, PEER_PORT, settings};
use crate::{DeployError, journal};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{ManageUnit, RunScript, WaitFor};
use kubexm_scripts::etcd as scripts;

/// Starts a member, or restarts it with its current files. `formed` says that the cluster was whole once.
pub(super) fn start(
    cluster: &Cluster,
    host: &HostSpec,
    place: &Place<'_>,
    formed: bool,
) -> Result<Task, DeployError> {
    let arguments = arguments(cluster, host, place);
    let member = scripts::MEMBER;
    let (title, begin) = match formed {
        true => (
            "Make a new member of etcd where one has lost its data",
            member.verb("join"),
        ),
        false => ("Begin a new etcd", member.verb("found")),
    };
    let begin = RunScript::new("etcd member", title, member.verb("has-data"), begin);
    let promote = RunScript::new(
        "etcd voter",
        "Let the member of etcd vote",
        member.verb("answers"),
        member.verb("promote"),
    );
    Ok(super::START
        .task(&host.name)
        .step(begin.arguments(arguments.clone()))
        .step(ManageUnit {
            name: UNIT.to_owned(),
            files: read_at_start()?,
            start: true,
        })
        .step(promote.arguments(arguments.clone()))
        .step(WaitFor {
            title: "Wait until etcd is healthy".to_owned(),
            script: member.verb("answers"),
            arguments,
            at_most: Duration::from_secs(60),
            diagnosis: journal(UNIT, 20),
        }))
}

/// Remembers on a member's host that the cluster was whole.
pub(super) fn mark(host: &HostSpec) -> Task {
    let mark = RunScript::new(
        "etcd formed",
        "Remember that etcd was whole",
        scripts::FORMED.verb("check"),
        scripts::FORMED.verb("mark"),
    );
    super::MARK.task(&host.name).step(mark.arguments([INITIAL]))
}

/// Arguments of `etcd/member.sh`.
fn arguments(cluster: &Cluster, host: &HostSpec, place: &Place<'_>) -> Vec<String> {
    let hosts = cluster.etcd_hosts().into_iter();
    let others: Vec<String> = hosts
        .filter(|other| other.name != host.name)
        .map(|other| settings::url(other, CLIENT_PORT))
        .collect();
    vec![
        host.name.to_string(),
        settings::url(host, PEER_PORT),
        place.data_dir.to_string(),
        others.join(","),
        settings::initial_cluster(cluster),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::member::{CTL, file};
    use super::*;

    /// The script and the templates name the same files.
    #[test]
    fn the_script_uses_the_members_files() {
        let folder = file("ca.crt");
        let folder = folder.strip_suffix("/ca.crt").unwrap();
        let local = settings::local_endpoint();
        let lines = [
            format!("unit={UNIT}\n"),
            format!("initial={INITIAL}\n"),
            format!("files={folder}\n"),
            format!("ask={local}\n"),
            format!("{CTL} --command-timeout=10s"),
        ];
        for line in lines {
            assert!(scripts::MEMBER.text.contains(&line), "{line}");
        }
    }
}
