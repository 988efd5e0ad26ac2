//! `kubeadm join` on all other nodes.

use std::sync::Arc;

use super::secrets::JoinSecrets;
use super::{node, patches, ready_to_join, undo};
use crate::kubernetes::BIND_PORT;
use crate::{BIN, DeployError, Inputs, load_balancer};
use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_engine::plan::{Slot, StepError, Task};
use kubexm_engine::steps::{InputFile, RunOnce};
use kubexm_render::RenderError;
use kubexm_render::kubeadm as template;
use kubexm_render::kubeadm::JoinControlPlane;
use kubexm_types::HostPath;

/// The mark of what makes the other nodes.
const JOIN_MARK: &str = "kubeadm-join";
/// A node that died while it joined stays Ready in the cluster until its lease runs out, after some
/// 50 seconds, and kubeadm takes no name that is: then the join waits for that.
const JOIN: &str = r#"
left=12
until said=$(kubeadm join --config "$INPUT" 2>&1 >/dev/null); do
  case $said in *"already exists in the cluster"*) ;; *) left=0 ;; esac
  if [ "$left" = 0 ]; then printf '%s\n' "$said" >&2; exit 1; fi
  left=$((left - 1))
  clean_up || :
  sleep 10
done
"#;

/// Runs `kubeadm join` on a node that is not the first control plane.
pub(super) fn join(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    slot: &Slot<JoinSecrets>,
    pending: bool,
) -> Result<Task, DeployError> {
    let module = match inputs.cluster.is_control_plane(&host.name) {
        true => "control-plane",
        false => "worker",
    };
    let cleanup = cleanup(inputs, host);
    let task = Task::new(module, "join", &host.name)
        .after(ready_to_join(host))
        .after(load_balancer::ready(inputs, host));
    let mut task = patches::write(inputs.cluster, host, JOIN_MARK, task)?.step(RunOnce {
        id: JOIN_MARK.to_owned(),
        title: "Run kubeadm join".to_owned(),
        command: format!("export PATH={BIN}:$PATH\nclean_up() {{ (\n{cleanup}\n) }}\n{JOIN}"),
        input: Some(config_file(inputs.cluster, host, slot)?),
        cleanup,
        undo: vec![undo::undo(inputs)],
    });
    if pending {
        task.needs.push(slot.name());
    }
    load_balancer::settle(inputs, host, task)
}

fn cleanup(inputs: &Inputs<'_>, host: &HostSpec) -> String {
    let stacked = matches!(inputs.cluster.etcd, Etcd::Kubeadm { .. });
    match inputs.first() {
        Some(first) if stacked && inputs.cluster.is_control_plane(&host.name) => {
            undo::cleanup_member(inputs, first, host)
        }
        _ => undo::cleanup(inputs),
    }
}

fn config_file(
    cluster: &Cluster,
    host: &HostSpec,
    slot: &Slot<JoinSecrets>,
) -> Result<InputFile, DeployError> {
    let preview = join_config(cluster, host, &JoinSecrets::words())?;
    let (cluster, host, slot) = (cluster.clone(), host.clone(), slot.clone());
    let content = Arc::new(move || {
        let secrets = slot.get().ok_or(StepError::Missing(slot.name()))?;
        let text = join_config(&cluster, &host, secrets);
        text.map(String::into_bytes)
            .map_err(|error| StepError::Other(error.to_string()))
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
            advertise_address: host.internal_address.to_string(),
            bind_port: BIND_PORT,
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
    };
    kubexm_render::text("kubeadm join configuration", &join)
}

/// A join configuration with secrets of the right form but of no cluster: the bundled kubeadm judges
/// it at build time.
pub(crate) fn join_preview(cluster: &Cluster, host: &HostSpec) -> Result<String, RenderError> {
    let secrets = JoinSecrets {
        token: "abcdef.0123456789abcdef".to_owned(),
        certificate_key: "0".repeat(64),
        ca_hash: format!("sha256:{}", "0".repeat(64)),
    };
    join_config(cluster, host, &secrets)
}
