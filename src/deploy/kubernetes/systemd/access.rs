//! Role bindings that the API server does not create.

use std::sync::Arc;
use std::time::Duration;

use super::files;
use crate::{DeployError, ETC, Inputs};
use kubexm_config::cluster::{Cluster, ControlPlanePod, HostSpec, LoadBalancer};
use kubexm_engine::plan::{About, Task};
use kubexm_engine::steps::{RunScript, WaitFor, WriteFile};
use kubexm_pki::kubernetes::{ADMIN_GROUP, ClusterPki, KUBE_VIP, KUBELET_CLIENT};
use kubexm_render::kubernetes::{Access, KubeVipAccess};
use kubexm_scripts::kubernetes as scripts;
use kubexm_types::HostPath;

/// Adds the steps that apply the bindings on the first control plane. They use its own API server, because the endpoint
/// may not answer yet.
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
        kube_vip: kube_vip(inputs.cluster),
    };
    let user = ("kubernetes-super-admin", &pki.super_admin);
    let server = files::own_server(inputs.cluster, first);
    let config = files::kubeconfig(inputs.cluster, pki, &server, user)?;
    let apply = RunScript::new(
        "access",
        "Apply role bindings",
        scripts::ACCESS.verb("check"),
        scripts::ACCESS.verb("apply"),
    )
    .arguments([path.to_string(), server])
    .input(Arc::new(move || Ok(config.clone().into_bytes())));
    let text = kubexm_render::text("role bindings", &access)?;
    Ok(task.step(WriteFile::new(path, text)).step(apply))
}

/// Returns the rights of kube-vip; `None` with another load balancer.
fn kube_vip(cluster: &Cluster) -> Option<KubeVipAccess> {
    let LoadBalancer::Pods {
        kind: ControlPlanePod::KubeVip,
    } = cluster.high_availability.kind
    else {
        return None;
    };
    let settings = &cluster.high_availability.kube_vip;
    Some(KubeVipAccess {
        user: KUBE_VIP,
        services: settings.services,
        elects_by_service: settings.elects_by_service(),
    })
}

/// Returns the step that waits until the API server of the first control plane answers at the endpoint.
pub(super) fn endpoint(cluster: &Cluster, first: &HostSpec) -> WaitFor {
    let endpoint = files::endpoint(cluster);
    let port = cluster.api_server(first).port().to_string();
    WaitFor {
        title: format!("Wait until the API server answers at {endpoint}"),
        script: scripts::ENDPOINT.verb("check"),
        arguments: Vec::new(),
        at_most: Duration::from_secs(120),
        diagnosis: scripts::ENDPOINT.verb("diagnose").with([port]),
        about: About::Other,
    }
}
