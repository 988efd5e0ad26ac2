//! Files and directories of an earlier install that no setting needs any more. An install reports them.

use std::collections::BTreeSet;

use crate::{HostFacts, Inputs, os};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{Plan, Step, Task, TaskName};
use kubexm_engine::steps::RunScript;
use kubexm_scripts::steps::FORMER_FILES;

/// Compares the files of earlier installs with those of the plan.
const COMPARE: TaskName = TaskName::new("os", "former-files");

/// Returns a task for each host on which something is installed. `plan` has all other tasks.
pub(super) fn tasks(inputs: &Inputs<'_>, plan: &Plan) -> Vec<Task> {
    let hosts = inputs.cluster.hosts.iter();
    let installed = hosts.filter(|host| is_installed(&inputs.host_facts(&host.name)));
    installed.map(|host| compare(host, plan)).collect()
}

fn is_installed(facts: &HostFacts) -> bool {
    facts.is_node || facts.etcd_formed || facts.registry_login.is_some()
}

fn compare(host: &HostSpec, plan: &Plan) -> Task {
    let tasks = plan.tasks.iter().filter(|task| task.host == host.name);
    let steps: Vec<&Step> = tasks.flat_map(|task| &task.steps).collect();
    let files = steps.iter().flat_map(|step| step.files());
    let directories = steps.iter().flat_map(|step| step.directories());
    let paths: BTreeSet<String> = files
        .map(|file| file.path)
        .chain(directories)
        .map(|path| path.to_string())
        .collect();
    // The check reports and never asks for a change, so that nothing runs the second verb.
    let step = RunScript::new(
        "former files",
        "Compare the files of earlier installs",
        FORMER_FILES.verb("check"),
        FORMER_FILES.verb("check"),
    );
    COMPARE
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)])
        .step(step.arguments(paths))
}
