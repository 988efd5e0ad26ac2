//! Images that a node pulls before pods need them, and pins.

use std::sync::Arc;
use std::time::Duration;

use super::module::Module;
use super::runtime::{self, Login};
use super::{DeployError, Deployment, Inputs, registry};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::Limit;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, Undo};
use kubexm_scripts::undo::STOP_PODS;

/// How long all pulls of a node may take. A runtime waits without a limit for a registry that does not answer.
const LIMIT: Limit = Limit::new(Duration::from_secs(3600), "image pulls");

/// The images that nodes pull before pods need them.
pub(super) struct Pulls;

impl Module for Pulls {
    fn tasks(
        &self,
        inputs: &Inputs<'_>,
        deployment: &Deployment,
    ) -> Result<Vec<Task>, DeployError> {
        let nodes = inputs.cluster.nodes().into_iter();
        nodes
            .map(|host| pull(inputs, host, runtime::preloaded(inputs, deployment, host)))
            .collect()
    }
}

/// Pulls and pins a node's images.
fn pull(inputs: &Inputs<'_>, host: &HostSpec, images: Vec<String>) -> Result<Task, DeployError> {
    let title = format!("Pull and pin {} images", images.len());
    let registry = registry::endpoints(inputs.cluster).into_iter().next();
    let registry = registry.unwrap_or_default();
    let runtime = runtime::configured(inputs);
    let scripts = runtime.images();
    let arguments = std::iter::once(registry).chain(images);
    let mut step = RunScript::new("pinned images", title, scripts.check, scripts.pull);
    if let (Login::Input, Some(login)) =
        (runtime.login(), inputs.certificates.registry_login.as_ref())
    {
        let pair = format!("{}\n", login.pair.0);
        step = step.input(Arc::new(move || Ok(pair.clone().into_bytes())));
    }
    // A reset reverts the last record first, so pods end before the second script stops their remains.
    if let Some(script) = runtime.after_pods() {
        step = step.undo(Undo::run(script, [""; 0]));
    }
    step = step.undo(Undo::run(STOP_PODS, [""; 0]));
    Ok(runtime::PULL
        .task(&host.name)
        .after(registry::serving(inputs))
        .after([runtime::installed(&host.name)])
        .step(step.arguments(arguments).limit(LIMIT)))
}
