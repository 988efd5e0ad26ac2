//! Kubernetes' programs on a node, and what is settled before they start.

use std::sync::Arc;

use super::files::CA;
use crate::kubernetes::undo::TRACES;
use crate::{BIN, DeployError, Inputs, binary, etcd, id, images};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, OwnFolders, RunScript, Undo};
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_types::Digest;

/// Where Kubernetes' programs and pods keep data.
const FOLDERS: [&str; 8] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/log/kubernetes",
    "/var/log/pods",
    "/var/log/containers",
    "/usr/libexec/kubernetes",
    "/run/flannel",
    // Network plugins' pods mount it and have it made where it is not there.
    "/lib/modules",
];

/// The state folder holds the cluster's CA: with another one an install would replace every
/// certificate of a running cluster, and none of its tokens and nodes would be trusted any more.
const SAME_CA: &str = r#"
[ ! -e "$1" ] || [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ] ||
  { echo "is of another state folder"; exit 1; }
"#;
const OTHER_CA: &str = r#"
echo "$1 is not the CA of this state folder. Give the --state that the cluster was installed with, or reset its hosts." >&2
exit 1
"#;

/// Puts a node's programs there.
pub(super) fn programs(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    host: &HostSpec,
) -> Result<Task, DeployError> {
    let mut names = vec!["kubelet", "kube-proxy", "kubectl"];
    let is_control_plane = inputs.cluster.is_control_plane(&host.name);
    if is_control_plane {
        names.extend([
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
        ]);
    }
    let mut payloads = Vec::new();
    for name in names {
        let file = inputs.kubernetes_file(name, &host.name)?;
        payloads.push(binary(file, &format!("{BIN}/{name}"))?);
    }
    let digest = Digest::of(pki.ca.certificate.as_bytes()).hex();
    let same_ca = RunScript::new("cluster CA", "Compare the cluster's CA", SAME_CA, OTHER_CA);
    let task = Task::new("kubernetes", "programs", &host.name)
        .after([id("os", "prepare", &host.name)])
        .step(same_ca.arguments([CA.to_owned(), digest]))
        .step(OwnFolders::new(
            "kubernetes-folders",
            "the folders of Kubernetes' programs",
            &FOLDERS,
        )?)
        .step(InstallFiles {
            title: format!("Kubernetes {}", inputs.cluster.kubernetes.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        });
    if !is_control_plane {
        return Ok(task);
    }
    let client_files = etcd::client_files(inputs)?;
    Ok(client_files.into_iter().fold(task, Task::step))
}

/// Nothing but the way back from what the programs will do; facts see its mark. It stands after the
/// runtime, so that a reset comes to it while there still is one that ends pods.
pub(super) fn traces() -> RunScript {
    const MARK: &str = "/var/lib/kubexm/done/kubernetes-node";
    let check = format!("[ -e {MARK} ] || {{ echo \"has not been done\"; exit 1; }}");
    let apply = format!("umask 077; mkdir -p /var/lib/kubexm/done; : >{MARK}");
    let title = "Take note of pods, links and rules to come";
    RunScript::new("node traces", title, &check, &apply).undo(Undo::Script {
        title: "Stop pods, remove links and rules".to_owned(),
        script: format!("(\n{}\n)\n{TRACES}rm -f {MARK}\n", images::STOP_PODS),
        arguments: Vec::new(),
    })
}
