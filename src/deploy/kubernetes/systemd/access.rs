//! Role bindings that the API server does not create.

use std::sync::Arc;
use std::time::Duration;

use super::files;
use crate::{DeployError, ETC, Inputs};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, WaitFor, WriteFile};
use kubexm_pki::kubernetes::{ADMIN_GROUP, ClusterPki, KUBELET_CLIENT};
use kubexm_render::kubernetes::Access;
use kubexm_scripts::kubernetes as scripts;
use kubexm_types::HostPath;

/// Adds the steps that apply the bindings on the first control plane, and that wait until its API server answers
/// at the endpoint.
pub(super) fn steps(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    first: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    let path = HostPath::parse(&format!("{ETC}/access.yaml"))?;
    let access = Access {
        admins: ADMIN_GROUP,
        kubelet_client: KUBELET_CLIENT,
    };
    let user = ("kubernetes-super-admin", &pki.super_admin);
    let config = files::kubeconfig(
        inputs.cluster,
        pki,
        &files::own_server(inputs.cluster, first),
        user,
    )?;
    let apply = RunScript::new(
        "access",
        "Apply role bindings",
        scripts::ACCESS.verb("check"),
        scripts::ACCESS.verb("apply"),
    )
    .arguments([path.as_str()])
    .input(Arc::new(move || Ok(config.clone().into_bytes())));
    let endpoint = files::endpoint(inputs.cluster);
    Ok(task
        .step(WriteFile::new(
            path,
            kubexm_render::text("role bindings", &access)?,
        ))
        .step(apply)
        .step(WaitFor {
            title: format!("Wait until the API server answers at {endpoint}"),
            script: scripts::ENDPOINT.verb("check"),
            arguments: Vec::new(),
            at_most: Duration::from_secs(120),
            diagnosis: scripts::ENDPOINT.verb("diagnose").with([inputs
                .cluster
                .kubernetes
                .api_server_port
                .to_string()]),
            hosts: Vec::new(),
        }))
}
