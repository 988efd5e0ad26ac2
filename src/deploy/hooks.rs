//! `spec.system.hooks`: scripts of the user before and after phases.

use std::collections::BTreeSet;

use kubexm_config::cluster::{Cluster, FileSource, Hook, HookPhase, HookRun, HookTime, HostSpec};
use kubexm_engine::Limit;
use kubexm_engine::plan::{Plan, Task, TaskId};
use kubexm_engine::steps::{RunHook, RunHookAlways};
use kubexm_types::Secret;

use super::{DeployError, Inputs, controller_file, kubernetes, os, runtime};

/// Largest size of a script on the controller, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// The hooks of a reset on one host.
pub struct ResetHooks {
    /// The hooks that run before the first change.
    pub before: Vec<RunHook>,
    /// The hooks that run when all changes are reverted.
    pub after: Vec<RunHook>,
}

impl ResetHooks {
    /// Returns the hooks of a host.
    ///
    /// # Errors
    /// The file of a hook cannot be read.
    pub fn of(cluster: &Cluster, host: &HostSpec) -> Result<Self, DeployError> {
        let hooks = |time| {
            let selected = selected(cluster, host, HookPhase::Reset, time);
            selected
                .map(|hook| step(cluster, hook))
                .collect::<Result<_, _>>()
        };
        Ok(Self {
            before: hooks(HookTime::Before)?,
            after: hooks(HookTime::After)?,
        })
    }
}

/// Adds the tasks of the hooks to a plan that has all other tasks.
///
/// # Errors
/// The file of a hook cannot be read.
pub(super) fn insert(inputs: &Inputs<'_>, plan: &mut Plan) -> Result<(), DeployError> {
    // A later phase in this list encloses the earlier ones: its hooks precede and follow theirs.
    for phase in [HookPhase::Kubernetes, HookPhase::Runtime, HookPhase::System] {
        for host in &inputs.cluster.hosts {
            let id = match phase {
                HookPhase::Kubernetes => kubernetes::joined(inputs, host),
                HookPhase::Runtime => runtime::installed(&host.name),
                _ => os::PREPARE.id(&host.name),
            };
            // A host that is not a node has neither a runtime nor Kubernetes.
            let Some(place) = plan.tasks.iter().position(|task| task.id() == id) else {
                continue;
            };
            if let Some(hooks) = task(inputs, host, phase, HookTime::Before)? {
                let target = &mut plan.tasks[place];
                let hooks = hooks.after(std::mem::take(&mut target.after));
                target.after.push(hooks.id());
                plan.tasks.push(hooks);
            }
            if let Some(hooks) = task(inputs, host, phase, HookTime::After)? {
                for task in plan
                    .tasks
                    .iter_mut()
                    .filter(|task| task.after.contains(&id))
                {
                    task.after.push(hooks.id());
                }
                plan.tasks.push(hooks.after([id]));
            }
        }
    }
    around(inputs, plan)
}

/// Adds the tasks of the hooks before and after the whole install. The first change on any host waits for those of all
/// hosts.
fn around(inputs: &Inputs<'_>, plan: &mut Plan) -> Result<(), DeployError> {
    let tasks = |time| {
        let hosts = inputs.cluster.hosts.iter();
        let hosts = hosts.filter(|host| !inputs.absent.contains(&host.name));
        let tasks = hosts.map(|host| task(inputs, host, HookPhase::Install, time));
        let tasks: Result<Vec<Option<Task>>, DeployError> = tasks.collect();
        tasks.map(|tasks| tasks.into_iter().flatten().collect::<Vec<Task>>())
    };
    let after = tasks(HookTime::After)?;
    if !after.is_empty() {
        let awaited = plan.tasks.iter().flat_map(|task| &task.after);
        let awaited: BTreeSet<TaskId> = awaited.cloned().collect();
        let last = plan.tasks.iter().map(Task::id);
        let last: Vec<TaskId> = last.filter(|id| !awaited.contains(id)).collect();
        let after = after.into_iter().map(|task| task.after(last.clone()));
        plan.tasks.extend(after);
    }
    let before = tasks(HookTime::Before)?;
    let ids: Vec<TaskId> = before.iter().map(Task::id).collect();
    for task in plan.tasks.iter_mut().filter(|task| task.after.is_empty()) {
        task.after.extend(ids.iter().cloned());
    }
    plan.tasks.extend(before);
    Ok(())
}

/// Returns the task of the hooks of a host; `None` if there are none.
fn task(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    phase: HookPhase,
    time: HookTime,
) -> Result<Option<Task>, DeployError> {
    let name = format!("{}-{}", time.name(), phase.name());
    let mut task = Task::new("hooks", &name, &host.name);
    for hook in selected(inputs.cluster, host, phase, time) {
        let precedes_system = matches!(phase, HookPhase::Install | HookPhase::System);
        if task.steps.is_empty() && precedes_system && time == HookTime::Before {
            task = task.step(os::own_directories()?);
        }
        let step = step(inputs.cluster, hook)?;
        task = match hook.run {
            HookRun::Changed => task.step(step),
            HookRun::Always => task.step(RunHookAlways(step)),
        };
    }
    Ok((!task.steps.is_empty()).then_some(task))
}

/// Returns the hooks that a host runs on one side of a phase, in the order of the cluster file.
fn selected<'a>(
    cluster: &'a Cluster,
    host: &'a HostSpec,
    phase: HookPhase,
    time: HookTime,
) -> impl Iterator<Item = &'a Hook> {
    let hooks = cluster.system.hooks.iter();
    hooks
        .filter(move |hook| hook.phase == phase && hook.time == time)
        .filter(move |hook| hook.is_for(&cluster.roles, &host.name))
}

fn step(cluster: &Cluster, hook: &Hook) -> Result<RunHook, DeployError> {
    let script = match &hook.script {
        FileSource::Content(text) => text.clone(),
        FileSource::File(path) => Secret(controller_file::read_at_most(path, LARGEST)?),
    };
    let (time, phase) = (hook.time.name(), hook.phase.name());
    Ok(RunHook {
        name: hook.name.clone(),
        title: format!("Run the hook '{}' {time} {phase}", hook.name),
        script,
        cluster: cluster.name.clone(),
        limit: Limit::new(hook.timeout, "this hook"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster, plan_without};
    use kubexm_engine::plan::Kind;
    use kubexm_engine::plan::graph::Graph;

    /// Returns the plan of a control plane `node1` and a worker `node2` with hooks, without these workers.
    fn plan(hooks: &str, absent: &[&str]) -> Plan {
        let sections = format!("network: {{plugin: none}}\nsystem: {{hooks: [{hooks}]}}");
        let plan = plan_without(&cluster("", &sections), &[], absent);
        Graph::new(&plan).unwrap();
        plan
    }

    fn hook(phase: &str, when: &str, more: &str) -> String {
        format!("{{name: {when}-{phase}, phase: {phase}, when: {when}, content: 'true'{more}}}")
    }

    /// Returns the tasks that a task waits for.
    fn after<'a>(plan: &'a Plan, id: &str) -> Vec<&'a str> {
        let task = plan.tasks.iter().find(|task| task.id().0 == id);
        let task = task.unwrap_or_else(|| panic!("{id}"));
        task.after.iter().map(|id| id.0.as_str()).collect()
    }

    #[test]
    fn hooks_surround_their_phases() {
        let phases = ["install", "system", "runtime", "kubernetes"];
        let hooks = phases.map(|phase| [hook(phase, "before", ""), hook(phase, "after", "")]);
        let plan = plan(&hooks.concat().join(", "), &[]);
        let first = ["hooks/before-install@node1", "hooks/before-install@node2"];
        assert_eq!(after(&plan, "hooks/before-system@node2"), first);
        let own = ["hooks/before-system@node2"];
        assert_eq!(after(&plan, "os/prepare@node2"), own);
        assert_eq!(
            after(&plan, "hooks/after-system@node2"),
            ["os/prepare@node2"]
        );
        let own = ["hooks/before-runtime@node2"];
        assert_eq!(after(&plan, "runtime/install@node2"), own);
        let runtime = after(&plan, "hooks/before-runtime@node2");
        assert!(runtime.contains(&"hooks/after-system@node2"), "{runtime:?}");
        let images = after(&plan, "images/pull@node2");
        assert!(images.contains(&"hooks/after-runtime@node2"), "{images:?}");
        let own = ["hooks/before-kubernetes@node2"];
        assert_eq!(after(&plan, "worker/join@node2"), own);
        let join = after(&plan, "hooks/before-kubernetes@node2");
        let awaited = ["images/pull@node2", "hooks/after-kubernetes@node1"];
        assert!(awaited.iter().all(|id| join.contains(id)), "{join:?}");
        let end = after(&plan, "hooks/after-install@node2");
        assert!(end.contains(&"host/health@node2"), "{end:?}");
        assert!(!end.contains(&"hooks/after-install@node1"));
    }

    #[test]
    fn roles_select_hosts_and_run_selects_the_kind_of_the_step() {
        let hooks = [
            hook("system", "after", ", roles: [worker], run: always"),
            hook("reset", "before", ""),
        ];
        let plan = plan(&hooks.join(", "), &[]);
        let tasks = plan.tasks.iter();
        let tasks: Vec<&Task> = tasks.filter(|task| task.module == "hooks").collect();
        assert_eq!(tasks.len(), 1);
        assert_eq!(tasks[0].id().0, "hooks/after-system@node2");
        assert_eq!(tasks[0].steps.len(), 1);
        assert_eq!(tasks[0].steps[0].kind(), Kind::Action);
        let described = tasks[0].steps[0].describe();
        assert_eq!(described, "Run the hook 'after-system' after system");
    }

    #[test]
    fn absent_worker_has_no_hooks() {
        let hooks = [hook("install", "before", ""), hook("system", "after", "")];
        let plan = plan(&hooks.join(", "), &["node2"]);
        assert!(plan.tasks.iter().all(|task| task.host.as_str() == "node1"));
        let first = ["hooks/before-install@node1"];
        assert_eq!(after(&plan, "os/prepare@node1"), first);
    }

    #[test]
    fn reset_has_its_hooks() {
        let hooks = format!(
            "{}, {}, {}",
            hook("reset", "before", ", roles: [worker]"),
            hook("reset", "after", ""),
            hook("system", "after", "")
        );
        let cluster = cluster("", &format!("system: {{hooks: [{hooks}]}}"));
        let count = |host: &HostSpec| {
            let hooks = ResetHooks::of(&cluster, host).unwrap();
            (hooks.before.len(), hooks.after.len())
        };
        let counts: Vec<_> = cluster.hosts.iter().map(count).collect();
        assert_eq!(counts, [(0, 1), (1, 1)]);
    }
}
