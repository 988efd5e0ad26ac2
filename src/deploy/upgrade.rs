//! Plans an upgrade by one version, on one node after another. It is the plan of an install with the new version in which
//! each node waits for the node before it, and in which pods leave a node before its programs change.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use super::{DeployError, Deployment, Inputs, images, kubernetes, runtime};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::Limit;
use kubexm_engine::plan::{Plan, Task, TaskId, TaskName};
use kubexm_engine::steps::RunScript;
use kubexm_scripts::kubernetes::DRAIN;
use kubexm_types::HostName;

/// Upgrades a node with kubeadm.
const NODE: TaskName = TaskName::new("upgrade", "node");
/// How long a node may take until the scheduler may use it again: until it is Ready.
const RETURN: Limit = Limit::new(Duration::from_secs(420), "the return of a node");
/// How much longer than its evictions a drain may take.
pub(crate) const AROUND_EVICTIONS: Duration = Duration::from_secs(180);

/// How pods leave a node before its programs change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long the evictions may take.
    pub timeout: Duration,
    /// Whether to delete pods that no controller creates again.
    pub deletes_unmanaged: bool,
    /// Whether to delete pods although a PodDisruptionBudget forbids their eviction.
    pub ignores_budgets: bool,
}

impl Drain {
    /// Returns the options for kubectl.
    pub(crate) fn options(self) -> Vec<String> {
        let options = [
            (self.deletes_unmanaged, "--force"),
            (self.ignores_budgets, "--disable-eviction"),
        ];
        let options = options.into_iter().filter(|(is_set, _)| *is_set);
        options.map(|(_, option)| option.to_owned()).collect()
    }
}

/// What a hop depends on: an upgrade by one minor version, or within it.
pub struct HopInputs<'a> {
    /// As of an install. The cluster has the version after the hop.
    pub inputs: Inputs<'a>,
    /// Nodes that keep their version in this plan. Nothing of Kubernetes changes on them.
    pub held: BTreeSet<HostName>,
    /// How pods leave a node; `None` if no other node could run them.
    pub drain: Option<Drain>,
    /// The number of workers that change at the same time.
    pub max_unavailable: NonZeroUsize,
}

/// Plans a hop.
///
/// # Errors
/// See [`plan`](super::plan).
pub fn hop(given: &HopInputs<'_>) -> Result<Deployment, DeployError> {
    let inputs = &given.inputs;
    let mut deployment = super::plan(inputs)?;
    let Some(first) = inputs.first() else {
        return Ok(deployment);
    };
    let plan = &mut deployment.plan;
    let dependents = dependents(inputs, plan);
    for host in inputs.nodes() {
        replace_runtime(inputs, plan, host)?;
    }
    // Nothing of Kubernetes changes on nodes that keep their version, unless an interrupted run has left them without a kubelet.
    super::remove(plan, |task| {
        let is_begun =
            task.id() == runtime::installed(&task.host) && inputs.host_facts(&task.host).pods_ended;
        given.held.contains(&task.host) && dependents.contains(&task.id()) && !is_begun
    });
    let earlier = plan
        .tasks
        .iter()
        .map(Task::id)
        .filter(|id| !dependents.contains(id));
    let mut before: Vec<TaskId> = earlier.collect();
    let mut nodes = inputs.nodes();
    nodes.retain(|host| !given.held.contains(&host.name));
    let (control_planes, workers): (Vec<&HostSpec>, Vec<&HostSpec>) = nodes
        .into_iter()
        .partition(|host| inputs.cluster.is_control_plane(&host.name));
    for host in control_planes {
        before = vec![gate(given, plan, first, host, before)?];
    }
    let mut returned: Vec<TaskId> = Vec::new();
    for host in workers {
        // The worker that began `max_unavailable` workers earlier has returned.
        let place = returned.len().checked_sub(given.max_unavailable.get());
        let of_worker = match place.and_then(|place| returned.get(place)) {
            Some(id) => vec![id.clone()],
            None => before.clone(),
        };
        returned.push(gate(given, plan, first, host, of_worker)?);
    }
    Ok(deployment)
}

/// Returns the tasks of a node that must wait until its pods have left it.
fn entries(host: &HostName) -> [TaskId; 3] {
    [
        runtime::installed(host),
        images::PULL.id(host),
        kubernetes::PROGRAMS.id(host),
    ]
}

/// Adds the steps by which the pods of a node end before a runtime of another version.
fn replace_runtime(
    inputs: &Inputs<'_>,
    plan: &mut Plan,
    host: &HostSpec,
) -> Result<(), DeployError> {
    let installed = runtime::installed(&host.name);
    for task in plan.tasks.iter_mut().filter(|task| task.id() == installed) {
        runtime::configured(inputs).replace(inputs, host, task)?;
    }
    // The kubelet starts again after the runtime: it must not be a newer one than the API server.
    wait_for(plan, &kubernetes::PROGRAMS.id(&host.name), &[installed]);
    Ok(())
}

/// Returns the tasks that change nodes, and all tasks that wait for them.
fn dependents(inputs: &Inputs<'_>, plan: &Plan) -> BTreeSet<TaskId> {
    let nodes = inputs.nodes();
    let mut found: BTreeSet<TaskId> = nodes.iter().flat_map(|host| entries(&host.name)).collect();
    let mut providers: BTreeMap<&str, Vec<TaskId>> = BTreeMap::new();
    for task in &plan.tasks {
        for value in &task.provides {
            providers.entry(value).or_default().push(task.id());
        }
    }
    loop {
        let waits = |task: &&Task| {
            let values = task
                .requires
                .iter()
                .filter_map(|value| providers.get(value));
            let mut tasks = task
                .after
                .iter()
                .chain(&task.after_end)
                .chain(values.flatten());
            tasks.any(|id| found.contains(id))
        };
        let tasks = plan.tasks.iter().filter(|task| !found.contains(&task.id()));
        let more: Vec<TaskId> = tasks.filter(waits).map(Task::id).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Lets a node change after the tasks `before`. Returns the task after which the next one may change.
fn gate(
    given: &HopInputs<'_>,
    plan: &mut Plan,
    first: &HostSpec,
    host: &HostSpec,
    before: Vec<TaskId>,
) -> Result<TaskId, DeployError> {
    let inputs = &given.inputs;
    let name = &host.name;
    let version = inputs.cluster.kubernetes.version.to_string();
    let begin = match given.drain {
        None => before,
        Some(drain) => {
            let step = RunScript::new(
                &format!("drain {name}"),
                format!("Move the pods of {name} to other nodes"),
                DRAIN.verb("check"),
                DRAIN.verb("drain"),
            );
            let seconds = drain.timeout.as_secs().to_string();
            let reported = runtime::configured(inputs).reported(inputs, host)?;
            let reported = reported.unwrap_or_default();
            let arguments = [name.to_string(), version.clone(), seconds, reported].into_iter();
            let limit = Limit::new(drain.timeout + AROUND_EVICTIONS, "the evictions of a node");
            let step = step
                .arguments(arguments.chain(drain.options()))
                .limit(limit);
            let task = Task::new("upgrade", &format!("drain-{name}"), &first.name);
            let task = task.after(before).step(step);
            let id = task.id();
            plan.tasks.push(task);
            vec![id]
        }
    };
    for id in entries(name) {
        wait_for(plan, &id, &begin);
    }
    let joined = kubernetes::joined(inputs, host);
    if kubernetes::is_kubeadm(inputs.cluster) {
        let programs = format!("install Kubernetes {version}");
        for task in plan.tasks.iter_mut().filter(|task| task.host == *name) {
            // The steps of kubeadm install each program when it is its turn.
            task.steps.retain(|step| step.id() != programs);
        }
        let task = NODE.task(name).after(entries(name));
        let task = kubernetes::kubeadm::upgraded(inputs, first, host, task)?;
        wait_for(plan, &joined, &[task.id()]);
        plan.tasks.push(task);
    }
    let step = RunScript::new(
        &format!("return {name}"),
        format!("Let the scheduler use {name} again"),
        DRAIN.verb("returned"),
        DRAIN.verb("return"),
    );
    let step = step.arguments([name.to_string(), version]).limit(RETURN);
    let task = Task::new("upgrade", &format!("return-{name}"), &first.name);
    let task = task.after([joined]).step(step);
    let id = task.id();
    plan.tasks.push(task);
    Ok(id)
}

/// Lets a task wait for others.
fn wait_for(plan: &mut Plan, id: &TaskId, others: &[TaskId]) {
    for task in plan.tasks.iter_mut().filter(|task| task.id() == *id) {
        task.after.extend_from_slice(others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostFacts;
    use crate::example::with_inputs;
    use kubexm_config::parse_cluster;
    use kubexm_engine::plan::graph::Graph;

    const IMAGES: [&str; 2] = [
        "ghcr.io/flannel-io/flannel:v0.28.4",
        "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
    ];

    /// Returns the tasks of a hop in an order in which they can run: three control planes and three workers exist.
    fn tasks(held: &[&str], max_unavailable: usize, has_drain: bool) -> Vec<Task> {
        tasks_with(held, max_unavailable, has_drain, |_| ())
    }

    /// Like [`tasks`]; `change` changes the facts of the hosts.
    fn tasks_with(
        held: &[&str],
        max_unavailable: usize,
        has_drain: bool,
        change: impl Fn(&mut BTreeMap<HostName, HostFacts>),
    ) -> Vec<Task> {
        let text = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts:
    - {name: c1, address: 192.0.2.11}
    - {name: c2, address: 192.0.2.12}
    - {name: c3, address: 192.0.2.13}
    - {name: w1, address: 192.0.2.14}
    - {name: w2, address: 192.0.2.15}
    - {name: w3, address: 192.0.2.16}
  roleGroups: {control-plane: [c1, c2, c3], worker: [w1, w2, w3], registry: [w3]}
  highAvailability: {type: external}
  controlPlaneEndpoint: {address: 192.0.2.99}
  kubernetes: {version: 1.36.3}
";
        let cluster = parse_cluster("example", text).unwrap();
        with_inputs(&cluster, &IMAGES, "", |inputs| {
            let mut hosts = inputs.hosts.clone();
            for facts in hosts.values_mut() {
                facts.is_node = true;
            }
            change(&mut hosts);
            let drain = Drain {
                timeout: Duration::from_secs(600),
                deletes_unmanaged: false,
                ignores_budgets: true,
            };
            let given = HopInputs {
                inputs: Inputs {
                    hosts,
                    blobs: inputs.blobs.clone(),
                    certificates: inputs.certificates.clone(),
                    absent: BTreeSet::new(),
                    leaving: BTreeSet::new(),
                    ..*inputs
                },
                held: held.iter().map(|name| name.parse().unwrap()).collect(),
                drain: has_drain.then_some(drain),
                max_unavailable: NonZeroUsize::new(max_unavailable).unwrap(),
            };
            let mut tasks = hop(&given).unwrap().plan.tasks;
            let order = Graph::new(&Plan {
                tasks: std::mem::take(&mut tasks),
            });
            order.unwrap();
            hop(&given).unwrap().plan.tasks
        })
    }

    /// Returns whether a task waits for another one, directly or through others.
    fn waits(tasks: &[Task], task: &str, other: &str) -> bool {
        let known: BTreeMap<TaskId, &Task> = tasks.iter().map(|task| (task.id(), task)).collect();
        let (mut seen, mut left) = (BTreeSet::new(), vec![TaskId(task.to_owned())]);
        while let Some(id) = left.pop() {
            let found = known.get(&id).unwrap_or_else(|| panic!("no task {id}"));
            let before = found.after.iter().chain(&found.after_end);
            left.extend(before.filter(|id| seen.insert((*id).clone())).cloned());
        }
        seen.contains(&TaskId(other.to_owned()))
    }

    fn has(tasks: &[Task], id: &str) -> bool {
        tasks.iter().any(|task| task.id().0 == id)
    }

    #[test]
    fn nodes_change_one_after_another_and_pods_leave_first() {
        let tasks = tasks(&[], 1, true);
        let order = ["c1", "c2", "c3", "w1", "w2", "w3"];
        for pair in order.windows(2) {
            let (drain, back) = (
                format!("upgrade/drain-{}@c1", pair[1]),
                format!("upgrade/return-{}@c1", pair[0]),
            );
            assert!(waits(&tasks, &drain, &back), "{pair:?}");
        }
        for host in order {
            let drain = format!("upgrade/drain-{host}@c1");
            for entry in entries(&host.parse().unwrap()) {
                assert!(waits(&tasks, &entry.0, &drain), "{entry}");
            }
            let back = format!("upgrade/return-{host}@c1");
            assert!(waits(&tasks, &back, &format!("upgrade/node@{host}")));
        }
        // The images of the new version are in the registry before the first node changes.
        let seeded = tasks.iter().filter(|task| task.module == "registry");
        let seeded: Vec<String> = seeded.map(|task| task.id().0).collect();
        assert!(!seeded.is_empty());
        for id in seeded {
            assert!(waits(&tasks, "upgrade/drain-c1@c1", &id), "{id}");
        }
    }

    /// Returns the names of the steps of a task.
    fn steps(tasks: &[Task], id: &str) -> Vec<String> {
        let task = tasks.iter().find(|task| task.id().0 == id).unwrap();
        let steps = task.steps.iter();
        steps.map(kubexm_engine::plan::Step::id).collect()
    }

    /// Pods that run while containerd is replaced keep the shims of the former one.
    #[test]
    fn pods_end_before_their_containerd_is_replaced() {
        let tasks = tasks(&[], 1, true);
        for host in ["c1", "c2", "w1"] {
            let task = format!("runtime/install@{host}");
            let steps = steps(&tasks, &task);
            let place = |part: &str| {
                let found = steps.iter().position(|step| step.starts_with(part));
                found.unwrap_or_else(|| panic!("{part}: {steps:?}"))
            };
            let order = [
                "end pods",
                "install containerd ",
                "unit containerd.service",
                "wait Wait until containerd answers",
                "kubelet after containerd",
            ];
            for pair in order.windows(2) {
                assert!(place(pair[0]) < place(pair[1]), "{pair:?}: {steps:?}");
            }
            assert_eq!(place("end pods"), 0);
            assert!(waits(&tasks, &task, &format!("upgrade/drain-{host}@c1")));
            // The kubelet that starts again is still the former one.
            let programs = format!("kubernetes/programs@{host}");
            assert!(waits(&tasks, &programs, &task));
        }
    }

    /// The kubelet of a held node stayed stopped after a killed upgrade.
    #[test]
    fn containerd_that_an_interrupted_run_has_begun_to_replace_is_complete_before_other_nodes_change()
     {
        let tasks = tasks_with(&["w1", "w2"], 1, true, |hosts| {
            let facts = hosts.get_mut(&"w2".parse::<HostName>().unwrap()).unwrap();
            facts.pods_ended = true;
        });
        assert!(!has(&tasks, "runtime/install@w1"));
        assert!(
            steps(&tasks, "runtime/install@w2").contains(&"kubelet after containerd".to_owned())
        );
        assert!(!waits(&tasks, "runtime/install@w2", "upgrade/drain-c1@c1"));
        for task in [
            "images/pull@w2",
            "kubernetes/programs@w2",
            "upgrade/node@w2",
        ] {
            assert!(!has(&tasks, task), "{task}");
        }
    }

    #[test]
    fn programs_change_when_it_is_their_turn() {
        let tasks = tasks(&[], 1, true);
        let steps = |id: &str| steps(&tasks, id);
        assert_eq!(
            steps("upgrade/node@c2"),
            [
                "kubelet start",
                "install kubeadm 1.36.3",
                "kubeadm upgrade",
                "wait Wait until the control plane of c2 is healthy",
                "install kubelet and kubectl 1.36.3",
                "kubelet stop",
                "kubelet settings",
                "kubelet version",
            ]
        );
        let programs = steps("kubernetes/programs@w1");
        assert!(!programs.contains(&"install Kubernetes 1.36.3".to_owned()));
        assert!(programs.contains(&"unit kubelet.service".to_owned()));
    }

    #[test]
    fn several_workers_change_at_the_same_time() {
        let tasks = tasks(&[], 2, true);
        assert!(!waits(
            &tasks,
            "upgrade/drain-w2@c1",
            "upgrade/return-w1@c1"
        ));
        assert!(waits(&tasks, "upgrade/drain-w2@c1", "upgrade/return-c3@c1"));
        assert!(waits(&tasks, "upgrade/drain-w3@c1", "upgrade/return-w1@c1"));
        assert!(!waits(
            &tasks,
            "upgrade/drain-w3@c1",
            "upgrade/return-w2@c1"
        ));
    }

    /// The host of the registry gets the images although its Kubernetes does not change.
    #[test]
    fn nodes_that_are_held_keep_their_kubernetes() {
        let tasks = tasks(&["w1", "w2", "w3"], 1, true);
        for host in ["w1", "w2", "w3"] {
            let name = host.parse().unwrap();
            for id in entries(&name).map(|id| id.0) {
                assert!(!has(&tasks, &id), "{id}");
            }
            assert!(!has(&tasks, &format!("upgrade/node@{host}")));
            assert!(has(&tasks, &format!("os/prepare@{host}")));
        }
        assert!(
            tasks
                .iter()
                .any(|task| task.module == "registry" && task.host.as_str() == "w3")
        );
        assert!(has(&tasks, "upgrade/node@c3"));
    }

    #[test]
    fn single_node_is_not_drained() {
        let tasks = tasks(&[], 1, false);
        assert!(!tasks.iter().any(|task| task.name.starts_with("drain")));
        assert!(waits(&tasks, "upgrade/node@c2", "upgrade/return-c1@c1"));
    }
}
