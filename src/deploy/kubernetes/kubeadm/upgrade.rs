//! The upgrade of a node with kubeadm, from the programs on the host to a kubelet that runs.

use std::sync::Arc;
use std::time::Duration;

use super::init::{init_config, marker, node_config};
use super::node::LIMIT;
use super::node_version::NodeVersion;
use super::{patches, settings};
use crate::{BIN, DeployError, Inputs, binary, health};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::Limit;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, RunScript};
use kubexm_scripts::{kubeadm, kubernetes as scripts};

/// How long the programs of a control plane may take until they answer.
const PROGRAMS: Duration = Duration::from_secs(180);
/// How long the programs may take to end that the new kubelet would kill.
const KUBELET: Limit = Limit::new(Duration::from_secs(420), "the kubelet");

/// Adds the steps that upgrade a node: those of kubeadm, and then the kubelet. The pods of the node have left it before.
pub(crate) fn steps(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    let cluster = inputs.cluster;
    let version = &cluster.kubernetes.version;
    let script = |id: &str, title: String, check, apply| {
        let step = RunScript::new(
            id,
            title,
            scripts::KUBELET_RESTART.verb(check),
            scripts::KUBELET_RESTART.verb(apply),
        );
        step.limit(KUBELET).arguments(scripts::KubeletRestart {
            version: version.to_string(),
        })
    };
    let mut task = task;
    if cluster.is_control_plane(&host.name) {
        // Without it, nothing starts etcd and the API server, for which the next steps wait.
        let title = "Start a kubelet that an interrupted upgrade has stopped";
        task = task.step(script(
            "kubelet start",
            title.to_owned(),
            "started",
            "start",
        ));
    }
    let mut task = patches::write(cluster, host, marker(inputs, host), task)?
        .step(install(inputs, host, &["kubeadm"])?)
        .step(kubeadm_step(inputs, first, host)?);
    if cluster.is_control_plane(&host.name) {
        let title = format!("Wait until the control plane of {} is healthy", host.name);
        let programs = health::control_plane(cluster).into_iter();
        let programs = programs.chain(health::etcd(cluster)).collect();
        task = task.step(health::wait(title, programs, PROGRAMS));
    }
    task = task.step(install(inputs, host, &["kubelet", "kubectl"])?);
    if cluster.is_control_plane(&host.name) {
        // Before it stops: what starts it after an interruption uses the new program, which may refuse the former settings.
        let files = settings::files_of_kubelet(host.name.as_str(), node_config(inputs, host)?);
        task = task.step(files);
        let title = "Stop the kubelet, and then the API server without failures of requests";
        task = task.step(script("kubelet stop", title.to_owned(), "stopped", "stop"));
    }
    let title = format!("Restart the kubelet with version {version}");
    let config = node_config(inputs, host)?;
    let task = settings::of_kubelet(host.name.as_str(), config, task);
    let restart = script("kubelet version", title, "check", "apply");
    Ok(task.step(restart).step(NodeVersion {
        node: host.name.clone(),
        version: version.clone(),
    }))
}

fn kubeadm_step(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    host: &HostSpec,
) -> Result<RunScript, DeployError> {
    let cluster = inputs.cluster;
    let version = &cluster.kubernetes.version;
    let (role, title, config) = if host.name == first.name {
        (
            "first",
            format!("Run kubeadm upgrade apply v{version}"),
            init_config(cluster, first)?,
        )
    } else {
        (
            "other",
            "Run kubeadm upgrade node".to_owned(),
            String::new(),
        )
    };
    let step = RunScript::new(
        "kubeadm upgrade",
        title,
        kubeadm::UPGRADE.verb("check"),
        kubeadm::UPGRADE.verb("apply"),
    );
    let patches = patches::folder(cluster, host).unwrap_or_default();
    let ignored = cluster.kubernetes.kubeadm.ignore_preflight_errors.join(",");
    let arguments = kubeadm::Upgrade {
        role: role.to_owned(),
        version: version.to_string(),
        patches: patches.to_owned(),
        ignored,
        config,
    };
    Ok(step.arguments(arguments).limit(LIMIT))
}

/// Returns the step that installs programs in the version of the cluster.
fn install(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    programs: &[&str],
) -> Result<InstallFiles, DeployError> {
    let payloads = programs.iter().map(|name| {
        let file = inputs.kubernetes_file(name, &host.name)?;
        binary(file, &format!("{BIN}/{name}"))
    });
    let version = &inputs.cluster.kubernetes.version;
    Ok(InstallFiles {
        title: format!("{} {version}", programs.join(" and ")),
        payloads: payloads.collect::<Result<_, DeployError>>()?,
        blobs: Arc::clone(&inputs.blobs),
    })
}
