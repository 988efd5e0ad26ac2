//! Who may do what, beyond what the API server grants by itself.

use std::sync::Arc;
use std::time::Duration;

use super::files;
use crate::{DeployError, ETC, Inputs, KUBECTL};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, WaitFor, WriteFile};
use kubexm_pki::kubernetes::{ADMIN_GROUP, ClusterPki, KUBELET_CLIENT};
use kubexm_render::kubernetes::Access;
use kubexm_types::HostPath;

/// The administrator gets its right here, and so cannot be the one who gives it. Who does is root's
/// alone, in memory, and only while this runs.
const APPLY: &str = r#"
umask 077
mkdir -p /run/kubexm
config=$(mktemp /run/kubexm/access-XXXXXX)
trap 'rm -f "$config"' EXIT
cat >"$config"
/usr/local/bin/kubectl --kubeconfig "$config" --cache-dir /run/kubexm/kubectl apply -f "$1" >/dev/null
"#;

/// Applies the bindings on the first control plane, and waits until its API server is reached the
/// way that all nodes will take.
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
    let config = files::kubeconfig(inputs.cluster, pki, &files::own_server(first), user)?;
    let check = format!(
        "{KUBECTL} --request-timeout=10s diff -f \"$1\" >/dev/null 2>&1 || {{ echo differs; exit 1; }}"
    );
    let apply = RunScript::new("access", "Apply bindings of roles", &check, APPLY)
        .arguments([path.as_str()])
        .input(Arc::new(move || Ok(config.clone().into_bytes())));
    let endpoint = files::endpoint(inputs.cluster);
    Ok(task
        .step(WriteFile::new(
            path,
            kubexm_render::text("bindings of roles", &access)?,
        ))
        .step(apply)
        .step(WaitFor {
            title: format!("Wait until the API server answers at {endpoint}"),
            script: format!(
                "{KUBECTL} --request-timeout=5s get namespace kube-system -o name 2>&1"
            ),
            arguments: Vec::new(),
            at_most: Duration::from_secs(120),
            diagnosis: format!(
                "echo 'does the load balancer lead to port 6443 of this control plane?'; \
                 {KUBECTL} --request-timeout=5s get --raw /readyz?verbose 2>&1 | tail -n 5"
            ),
        }))
}
