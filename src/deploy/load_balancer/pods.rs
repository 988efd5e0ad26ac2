//! The containers of static pods, which read certificates and CAs only when they start.

use std::time::Duration;

use kubexm_engine::Limit;
use kubexm_engine::steps::RunScript;
use kubexm_scripts::Script;
use kubexm_scripts::load_balancer::POD_RESTART;

/// How long a kubelet may take until it has started the containers again.
const RESTART: Limit = Limit::new(Duration::from_secs(420), "the kubelet and a container");

/// Returns the step that restarts the containers of this name if a file has changed since they started. The runtime kills
/// them after `grace`.
pub(super) fn restarted(name: &str, grace: Duration, file: &str) -> RunScript {
    let title = format!("Restart {name}, which reads its files only when it starts");
    let (check, apply) = (POD_RESTART.verb("check"), POD_RESTART.verb("apply"));
    let step = RunScript::new("load balancer pod", title, check, apply).limit(RESTART);
    step.arguments([name, &grace.as_secs().to_string(), file])
}

/// Returns the script, and its arguments, that succeeds if the containers of this name have started since all files changed.
pub(super) fn has_started(name: &str, files: Vec<String>) -> (Script, Vec<String>) {
    let arguments = [name.to_owned(), "0".to_owned()].into_iter();
    (POD_RESTART.verb("check"), arguments.chain(files).collect())
}
