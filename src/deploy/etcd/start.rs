//! The start of a member. A member starts together with all others for the first time, with its data, or as
//! the replacement of a member without data.

use std::time::Duration;

use super::client::CLIENT_CA;
use super::joining::{Joining, PromoteMember, ReplaceMember};
use super::member::{INITIAL, MODULE, UNIT, UserSettings, read_at_start};
use super::membership::KeepQuorum;
use crate::{DeployError, journal};
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind};
use kubexm_engine::plan::{About, Task, TaskName};
use kubexm_engine::steps::{ManageUnit, RunScript, WaitFor};
use kubexm_scripts::{Parameters, Script, etcd as scripts};

/// Checks whether a member answers. A learner does not.
const ANSWERS: Script = scripts::MEMBER.verb("answers");

/// Starts a member.
pub(crate) const START: TaskName = TaskName::new(MODULE, "start");
/// Records on a member that all members were healthy.
pub(crate) const MARK: TaskName = TaskName::new(MODULE, "mark");

/// Starts a member, or restarts it if its files changed. `formed` states that all members were healthy once.
pub(super) fn start(
    cluster: &Cluster,
    host: &HostSpec,
    user: &UserSettings<'_>,
    formed: bool,
) -> Result<Task, DeployError> {
    let member = joining(cluster, host, user);
    let promote = PromoteMember {
        member: member.clone(),
        answers: RunScript::new(
            "etcd voter",
            "Promote the etcd learner to a voting member",
            ANSWERS,
            ANSWERS,
        ),
    };
    let task = START.task(&host.name);
    let task = if formed {
        let title = "Replace a member of etcd that has lost its data";
        let has_data = begin(cluster, user, title);
        let replace = ReplaceMember { member, has_data };
        task.step(replace).step(quorum(cluster, host)?)
    } else {
        task.step(begin(cluster, user, "Create a new etcd cluster"))
    };
    Ok(task.step(unit()?).step(promote).step(answers()))
}

/// Returns the step that prepares the first start of all members. No member has been part of a complete cluster, so none can have
/// lost data. An aborted start leaves no data.
fn begin(cluster: &Cluster, user: &UserSettings<'_>, title: &str) -> RunScript {
    let member = scripts::MEMBER;
    let begin = member.verb("begin");
    let step = RunScript::new("etcd member", title, member.verb("has-data"), begin);
    step.arguments(scripts::Member {
        data: user.data_dir.to_string(),
        state: "new".to_owned(),
        members: kubexm_etcd::initial_cluster(cluster).join(","),
    })
}

fn joining(cluster: &Cluster, host: &HostSpec, user: &UserSettings<'_>) -> Joining {
    let members = kubexm_etcd::members(cluster).into_iter();
    Joining {
        name: host.name.to_string(),
        peer: kubexm_etcd::peer_url(host),
        data: user.data_dir.to_string(),
        others: others(cluster, host),
        all: members.map(kubexm_etcd::peer_url).collect(),
    }
}

/// Returns the step that fails if the member is about to restart, and the others have no quorum.
fn quorum(cluster: &Cluster, host: &HostSpec) -> Result<KeepQuorum, DeployError> {
    let files = read_at_start()?.into_iter();
    Ok(KeepQuorum {
        unit: UNIT,
        files: files.map(|path| path.to_string()).collect(),
        peer: kubexm_etcd::peer_url(host),
        others: others(cluster, host).join(","),
    })
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
    let kind = if cluster.kubernetes.kind == KubernetesKind::Kubeadm {
        "kubeadm"
    } else {
        "systemd"
    };
    let parameters = scripts::ClientsEnd {
        kind: kind.to_owned(),
        unit: UNIT.to_owned(),
        cas: CLIENT_CA.to_owned(),
    };
    let files = read_at_start()?.into_iter().map(|path| path.to_string());
    let step = RunScript::new(
        "etcd clients",
        "End the API server before its member of etcd restarts",
        scripts::CLIENTS_END.verb("check"),
        scripts::CLIENTS_END.verb("apply"),
    );
    Ok(step.arguments(parameters.and(files)))
}

/// Returns the step that waits until a member answers.
pub(super) fn answers() -> WaitFor {
    WaitFor {
        title: "Wait until etcd is healthy".to_owned(),
        script: ANSWERS,
        arguments: Vec::new(),
        at_most: Duration::from_secs(60),
        diagnosis: journal(UNIT, 20),
        about: About::Other,
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
    MARK.task(&host.name).step(mark.arguments([INITIAL]))
}

/// Returns the client addresses of the other members.
fn others(cluster: &Cluster, host: &HostSpec) -> Vec<String> {
    let hosts = cluster.etcd_hosts().into_iter();
    let others = hosts.filter(|other| other.name != host.name);
    others.map(kubexm_etcd::client_url).collect()
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
            format!("ETCDCTL_ENDPOINTS=${{endpoints:-{local}}} "),
            format!(" {CTL} \"$@\""),
        ];
        for line in lines {
            assert!(scripts::MEMBER.text.contains(&line), "{line}");
        }
        let client = scripts::ETCDCTL.text;
        assert!(client.contains(&format!("done <{}\n", file("etcdctl.env"))));
        assert!(client.contains(&format!("exec {CTL} ")));
    }
}
