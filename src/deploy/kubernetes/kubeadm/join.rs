//! `kubeadm join` on all other nodes.

use std::sync::Arc;

use super::init::marker;
use super::node::{LIMIT, file_modes, kubelet_runs, node, tasks_before_join};
use super::secrets::JoinSecrets;
use super::{etcd, patches, undo};
use crate::{DeployError, Inputs, kubernetes, load_balancer};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{StepError, Task, TaskValue};
use kubexm_engine::steps::{InputFile, RunToCompletion};
use kubexm_render::kubeadm as template;
use kubexm_render::kubeadm::JoinControlPlane;
use kubexm_render::{RenderError, merge};
use kubexm_scripts::{Parameters, kubeadm};
use kubexm_types::HostPath;

/// The marker file of `kubeadm join`.
pub(super) const JOIN: &str = "kubeadm-join";

/// Returns the task that runs `kubeadm join` on a node other than the first control plane.
pub(super) fn join(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    secrets: &TaskValue<JoinSecrets>,
    pending: bool,
) -> Result<Task, DeployError> {
    let name = if inputs.cluster.is_control_plane(&host.name) {
        kubernetes::JOIN_CONTROL_PLANE
    } else {
        kubernetes::JOIN_WORKER
    };
    let task = name
        .task(&host.name)
        .after(tasks_before_join(host))
        .after(load_balancer::tasks_before_join(inputs, host));
    let marker = marker(inputs, host);
    let mut task = patches::write(inputs.cluster, host, marker, task)?.step(RunToCompletion {
        id: marker.to_owned(),
        title: "Run kubeadm join".to_owned(),
        command: kubeadm::NODE.verb("join"),
        input: Some(config_file(inputs.cluster, host, secrets)?),
        cleanup: kubeadm::NODE.verb("clean-up"),
        arguments: arguments(inputs, host),
        waits_for: "the kubelet starts, and the API server knows the node",
        limit: LIMIT,
        undo: undo::undo(inputs, host),
    });
    task = etcd::own_data(
        inputs.cluster,
        host,
        task.step(file_modes()).step(kubelet_runs()),
    );
    if pending {
        task.requires.push(secrets.name());
    }
    load_balancer::after_join(inputs, host, task)
}

/// Returns the arguments of the script. A node without a member of etcd needs only the runtime's socket.
fn arguments(inputs: &Inputs<'_>, host: &HostSpec) -> Vec<String> {
    let arguments = kubeadm::Node {
        socket: undo::socket(inputs).to_owned(),
        etcd: etcd::member_directory(inputs.cluster, host),
        ..Default::default()
    };
    arguments.arguments()
}

fn config_file(
    cluster: &Cluster,
    host: &HostSpec,
    secrets: &TaskValue<JoinSecrets>,
) -> Result<InputFile, DeployError> {
    let preview = join_config(cluster, host, &JoinSecrets::placeholder())?;
    let (cluster, host, secrets) = (cluster.clone(), host.clone(), secrets.clone());
    let content = Arc::new(move || {
        let text = join_config(&cluster, &host, secrets.require()?);
        text.map(String::into_bytes)
            .map_err(|error| StepError::Other(error.to_string().into()))
    });
    Ok(InputFile {
        path: HostPath::parse("/run/kubexm/kubeadm-join.yaml")?,
        preview,
        content,
    })
}

fn join_config(
    cluster: &Cluster,
    host: &HostSpec,
    secrets: &JoinSecrets,
) -> Result<String, RenderError> {
    let (api, list) = template::api_of(&cluster.kubernetes.version);
    let control_plane = cluster
        .is_control_plane(&host.name)
        .then(|| JoinControlPlane {
            certificate_key: secrets.certificate_key.clone(),
            advertise_address: host.internal_address().to_string(),
            bind_port: cluster.api_server(host).port(),
        });
    let join = template::Join {
        api,
        list,
        endpoint: cluster.control_plane_endpoint.to_string(),
        token: secrets.token.clone(),
        ca_hash: secrets.ca_hash.clone(),
        control_plane,
        node: node(cluster, host),
        patches: patches::folder(cluster, host),
        skip_phases: cluster.kubernetes.kubeadm.skip_phases.join.clone(),
    };
    let what = "kubeadm join configuration";
    let text = kubexm_render::text(what, &join)?;
    merge::yaml_documents(what, text, &[&cluster.kubernetes.kubeadm.config.join])
}

/// Returns a join configuration with well-formed secrets of no cluster. The bundled kubeadm validates it at
/// build time.
pub(crate) fn join_config_for_validation(
    cluster: &Cluster,
    host: &HostSpec,
) -> Result<String, RenderError> {
    let secrets = JoinSecrets {
        token: "abcdef.0123456789abcdef".to_owned(),
        certificate_key: "0".repeat(64),
        ca_hash: format!("sha256:{}", "0".repeat(64)),
    };
    join_config(cluster, host, &secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_servers_that_join_listen_at_the_port_of_the_cluster() {
        let cluster = kubexm_config::example::cluster_of(
            "control-plane: [node1, node2], worker: [node3]",
            "apiServer: {port: 7443}",
            "highAvailability: {type: external}\ncontrolPlaneEndpoint: 192.0.2.9:7443",
        );
        let text = |name: &str| {
            let host = cluster.host(&name.parse().unwrap()).unwrap();
            join_config(&cluster, host, &JoinSecrets::placeholder()).unwrap()
        };
        let own = "  localAPIEndpoint:\n    advertiseAddress: \"192.0.2.12\"\n    bindPort: 7443\n";
        assert!(text("node2").contains(own), "{}", text("node2"));
        assert!(!text("node3").contains("bindPort"), "{}", text("node3"));
    }
}
