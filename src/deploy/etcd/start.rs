//! The start of a member. A member starts together with all others for the first time, with its data, or as
//! the replacement of a member without data.

use std::time::Duration;

use super::CLIENT_CA;
use super::member::{INITIAL, UNIT, UserSettings, read_at_start};
use crate::{DeployError, journal, kubernetes};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{ManageUnit, RunScript, WaitFor};
use kubexm_scripts::etcd as scripts;

/// Starts a member, or restarts it if its files changed. `formed` states that all members were healthy once.
pub(super) fn start(
    cluster: &Cluster,
    host: &HostSpec,
    user: &UserSettings<'_>,
    formed: bool,
) -> Result<Task, DeployError> {
    let arguments = arguments(cluster, host, user);
    let member = scripts::MEMBER;
    let (title, begin) = if formed {
        (
            "Replace a member of etcd that has lost its data",
            member.verb("join"),
        )
    } else {
        ("Create a new etcd cluster", member.verb("found"))
    };
    let begin = RunScript::new("etcd member", title, member.verb("has-data"), begin);
    let promote = RunScript::new(
        "etcd voter",
        "Promote the etcd learner to a voting member",
        member.verb("answers"),
        member.verb("promote"),
    );
    let mut task = super::START
        .task(&host.name)
        .step(begin.arguments(arguments.clone()));
    if formed {
        task = task.step(quorum(cluster, host)?);
    }
    Ok(task
        .step(unit()?)
        .step(promote.arguments(arguments))
        .step(answers(cluster, host, user)))
}

/// Returns the step that fails if the member is about to restart, and the others have no quorum.
fn quorum(cluster: &Cluster, host: &HostSpec) -> Result<RunScript, DeployError> {
    let fixed = [UNIT.to_owned(), others(cluster, host)];
    let files = read_at_start()?.into_iter().map(|path| path.to_string());
    let step = RunScript::new(
        "etcd quorum",
        "Check that etcd keeps its quorum while this member restarts",
        scripts::QUORUM.verb("check"),
        scripts::QUORUM.verb("apply"),
    );
    Ok(step.arguments(fixed.into_iter().chain(files)))
}

/// Returns the step that starts etcd, or restarts it if the files changed that it reads when it starts.
pub(super) fn unit() -> Result<ManageUnit, DeployError> {
    Ok(ManageUnit {
        name: UNIT.to_owned(),
        files: read_at_start()?,
        reload: None,
        start: true,
    })
}

/// Returns the step that ends the API server of a member's host before the member restarts. A later step starts it.
pub(super) fn clients_end(cluster: &Cluster) -> Result<RunScript, DeployError> {
    let kind = if kubernetes::is_kubeadm(cluster) {
        "kubeadm"
    } else {
        "systemd"
    };
    let fixed = [kind, UNIT, CLIENT_CA].map(str::to_owned);
    let files = read_at_start()?.into_iter().map(|path| path.to_string());
    let step = RunScript::new(
        "etcd clients",
        "End the API server before its member of etcd restarts",
        scripts::CLIENTS_END.verb("check"),
        scripts::CLIENTS_END.verb("apply"),
    );
    Ok(step.arguments(fixed.into_iter().chain(files)))
}

/// Returns the step that waits until a member answers.
pub(super) fn answers(cluster: &Cluster, host: &HostSpec, user: &UserSettings<'_>) -> WaitFor {
    WaitFor {
        title: "Wait until etcd is healthy".to_owned(),
        script: scripts::MEMBER.verb("answers"),
        arguments: arguments(cluster, host, user),
        at_most: Duration::from_secs(60),
        diagnosis: journal(UNIT, 20),
        hosts: Vec::new(),
    }
}

/// Records on a member's host that all members were healthy.
pub(super) fn mark(host: &HostSpec) -> Task {
    let mark = RunScript::new(
        "etcd formed",
        "Record that all members of etcd were healthy",
        scripts::FORMED.verb("check"),
        scripts::FORMED.verb("mark"),
    );
    super::MARK.task(&host.name).step(mark.arguments([INITIAL]))
}

/// Returns the arguments of `etcd/member.sh`.
fn arguments(cluster: &Cluster, host: &HostSpec, user: &UserSettings<'_>) -> Vec<String> {
    vec![
        host.name.to_string(),
        kubexm_etcd::peer_url(host),
        user.data_dir.to_string(),
        others(cluster, host),
        kubexm_etcd::initial_cluster(cluster).join(","),
    ]
}

/// Returns the client addresses of the other members, with commas between them.
fn others(cluster: &Cluster, host: &HostSpec) -> String {
    let hosts = cluster.etcd_hosts().into_iter();
    let others: Vec<String> = hosts
        .filter(|other| other.name != host.name)
        .map(kubexm_etcd::client_url)
        .collect();
    others.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::member::{CTL, file};
    use super::*;

    /// The scripts and the templates use the same paths.
    #[test]
    fn scripts_use_the_files_of_the_member() {
        let folder = file("ca.crt");
        let folder = folder.strip_suffix("/ca.crt").unwrap();
        let local = kubexm_etcd::local_endpoint();
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
        let client = scripts::ETCDCTL.text;
        assert!(client.contains(&format!("done <{}\n", file("etcdctl.env"))));
        assert!(client.contains(&format!("exec {CTL} ")));
    }
}
