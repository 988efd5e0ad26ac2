//! Plans what moves the registries of a cluster to other hosts while it runs.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::{DeployError, Inputs, preparation, registry, runtime};
use kubexm_config::cluster::{Cluster, HostSpec, RuntimeProperties};
use kubexm_engine::plan::{Kind, Plan, Step, Task, TaskId, TaskName};
use kubexm_engine::seed::StoreImages;
use kubexm_types::HostName;
use registry::reach;

/// Lets a host use the registries of the cluster.
const FOLLOW: TaskName = TaskName::new("registry", "follow");

/// Asks registries from a node.
const REACH: TaskName = TaskName::new("registry", "reach");

/// Looks up the name of the registry on a node.
const RESOLVE: TaskName = TaskName::new("registry", "resolve");

/// Plans registries on hosts, one after another. They get the images of `copied` before they start, and none of the bundle.
///
/// # Errors
/// The bundle does not contain the registry.
pub fn serve(
    inputs: &Inputs<'_>,
    hosts: &[HostName],
    copied: impl Fn() -> Option<StoreImages>,
) -> Result<Plan, DeployError> {
    let mut plan = Plan::default();
    let mut before: Option<TaskId> = None;
    for host in hosts {
        let mut task = registry::serve(inputs, host)?;
        task.after.clear();
        // Of the images of the bundle, users may have removed some.
        let own = task.steps.iter().position(|step| step.id() == IMAGES);
        let own = own.unwrap_or(task.steps.len());
        task.steps.retain(|step| step.id() != IMAGES);
        if let Some(images) = copied() {
            task.steps.insert(own, images.into());
        }
        let id = task.id();
        plan.tasks.push(task.after(before.replace(id)));
    }
    Ok(plan)
}

/// The step with the images of the bundle.
const IMAGES: &str = "registry images";

/// Plans the change of all hosts that are not absent to the registries of `inputs`, one after another: names, mirrors, CA and
/// logins. A runtime that reads them only when it starts restarts. Programs stay as they are.
///
/// # Errors
/// The bundle does not contain the container runtime, or a file of the controller cannot be read.
pub fn follow(inputs: &Inputs<'_>) -> Result<Plan, DeployError> {
    let mut plan = Plan::default();
    let mut before: Option<TaskId> = None;
    let hosts = inputs.cluster.hosts.iter();
    for host in hosts.filter(|host| !inputs.absent.contains(&host.name)) {
        let mut task = FOLLOW.task(&host.name);
        if inputs.cluster.system.manage_hosts_file {
            task = task.step(preparation::hosts_block(inputs)?);
        }
        if inputs.cluster.is_node(&host.name) && inputs.host_facts(&host.name).is_node {
            task.steps.extend(clients(inputs, host)?);
        }
        let id = task.id();
        plan.tasks.push(task.after(before.replace(id)));
    }
    Ok(plan)
}

/// Returns the steps by which the runtime of a node pulls from the registries.
fn clients(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Vec<Step>, DeployError> {
    let runtime = runtime::configured(inputs);
    if let Some(task) = runtime.clients(inputs, FOLLOW.task(&host.name))? {
        return Ok(task.steps);
    }
    let unit = format!("unit {}", inputs.cluster.runtime.kind.properties().unit);
    let mut steps = runtime.install(inputs, host, &[])?.steps;
    // Those with the images of the node are not among them. The others could bring other programs and settings, for which pods have to leave the node.
    let own = inputs.cluster.runtime.kind.properties();
    steps
        .retain(|step| is_of_registry(step, own) || step.id() == unit || step.kind() == Kind::Wait);
    Ok(steps)
}

/// Returns whether a step writes only files by which runtimes pull from registries.
fn is_of_registry(step: &Step, own: &RuntimeProperties) -> bool {
    let files = step.files();
    let known = own.registry_files.iter().chain([&own.certs_d]);
    let is_own = |path: &str| known.clone().any(|known| path.starts_with(known));
    !files.is_empty() && files.iter().all(|file| is_own(file.path.as_str()))
}

/// Plans the proof that each node reaches the registries of these hosts by their addresses: over HTTPS, with CA and login.
pub fn reach(inputs: &Inputs<'_>, hosts: &[HostName]) -> Plan {
    asked(inputs, &addresses(inputs, hosts))
}

/// Plans the proof that each node pulls from the registries of `inputs`: it finds the only one by its name, and each that is
/// not absent answers. Run it after [`follow`].
pub fn prove(inputs: &Inputs<'_>) -> Plan {
    let mut hosts = inputs.cluster.roles.registry.clone();
    hosts.retain(|name| !inputs.absent.contains(name));
    if hosts.is_empty() {
        return Plan::default();
    }
    let named = reach::named(inputs.cluster).is_some();
    let mut plan = if named {
        asked(inputs, &registry::endpoints(inputs.cluster))
    } else {
        asked(inputs, &addresses(inputs, &hosts))
    };
    for task in &mut plan.tasks {
        let looked_up = reach::resolves(inputs, &task.host);
        task.steps.splice(..0, looked_up.map(Step::from));
    }
    plan
}

/// Plans the proof that each node finds the only registry of `inputs` by its name. Run it before [`follow`] if kubexm does
/// not manage `/etc/hosts`. The plan is empty if nodes use the addresses of several registries.
pub fn resolve(inputs: &Inputs<'_>) -> Plan {
    let tasks = nodes(inputs).filter_map(|node| {
        let step = reach::resolves(inputs, &node.name)?;
        Some(RESOLVE.task(&node.name).step(step))
    });
    Plan {
        tasks: tasks.collect(),
    }
}

/// Returns the name by which nodes find the only registry of a cluster, and the addresses that it must have; `None` if nodes
/// use the addresses of several registries.
pub fn name_of_only(cluster: &Cluster) -> Option<(String, Vec<IpAddr>)> {
    reach::named(cluster)
}

/// Plans questions of all nodes to registries.
fn asked(inputs: &Inputs<'_>, endpoints: &[String]) -> Plan {
    let tasks = nodes(inputs).map(|node| {
        let task = REACH.task(&node.name);
        task.step(reach::answers(inputs, endpoints))
    });
    Plan {
        tasks: tasks.collect(),
    }
}

/// Returns the hosts with a runtime that pulls.
fn nodes<'a>(inputs: &'a Inputs<'_>) -> impl Iterator<Item = &'a HostSpec> {
    let nodes = inputs.nodes().into_iter();
    nodes.filter(|node| inputs.host_facts(&node.name).is_node)
}

/// Returns `address:port` of the registries of hosts.
fn addresses(inputs: &Inputs<'_>, hosts: &[HostName]) -> Vec<String> {
    let hosts = hosts.iter().filter_map(|name| inputs.cluster.host(name));
    let port = inputs.cluster.registry.port;
    hosts
        .map(|host| SocketAddr::new(host.internal_address(), port).to_string())
        .collect()
}

/// Returns the ids of the steps that belong to the registry of a host, for a reset of these alone.
///
/// # Errors
/// As [`serve`].
pub fn steps(inputs: &Inputs<'_>, host: &HostName) -> Result<BTreeSet<String>, DeployError> {
    let task: Task = registry::serve(inputs, host)?;
    Ok(task.steps.iter().map(|step| step.id()).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::HostFacts;
    use crate::example::{cluster, lock, with_inputs};
    use kubexm_engine::plan::FileContent;
    use kubexm_types::Arch;

    /// Calls `look` with a cluster of two nodes with registries on these hosts.
    fn with<T>(section: &str, registries: &[&str], look: impl FnOnce(&Inputs<'_>) -> T) -> T {
        let mut cluster = cluster("", section);
        cluster.roles.registry = registries
            .iter()
            .map(|name| name.parse().unwrap())
            .collect();
        let mut lock = lock(&[]);
        for name in ["docker", "cri-dockerd", "cri-o"] {
            let mut file = lock.files[0].clone();
            file.component = name.to_owned();
            lock.files.push(file);
        }
        let facts = HostFacts {
            is_node: true,
            ..HostFacts::assumed(Arch::Amd64)
        };
        let hosts = cluster.hosts.iter();
        let hosts: BTreeMap<_, _> = hosts
            .map(|host| (host.name.clone(), facts.clone()))
            .collect();
        with_inputs(&cluster, &[], "", |inputs| {
            look(&Inputs {
                hosts,
                lock: &lock,
                ..inputs.clone()
            })
        })
    }

    /// Returns what each task of a plan does.
    fn described(plan: &Plan) -> Vec<String> {
        let tasks = plan.tasks.iter().map(|task| {
            let steps: Vec<String> = task.steps.iter().map(|step| step.describe()).collect();
            format!("{}: {}", task.id(), steps.join("; "))
        });
        tasks.collect()
    }

    /// Another version of a runtime restarts pods, which a move does not announce.
    #[test]
    fn move_brings_no_other_programs_to_nodes() {
        for (runtime, file, restarts) in [
            (
                "containerd",
                "/etc/containerd/certs.d/registry.k8s.io/hosts.toml",
                None,
            ),
            (
                "docker",
                "/etc/docker/certs.d/registry.k8s.io/hosts.toml",
                None,
            ),
            (
                "crio",
                "/etc/containers/registries.conf.d/10-kubexm.conf",
                Some("Start crio.service"),
            ),
            (
                "isulad",
                "/etc/isulad/certs.d/192.0.2.12:5000/ca.crt",
                Some("Start isulad.service"),
            ),
        ] {
            let section = format!("containerRuntime: {{type: {runtime}}}");
            with(&section, &["node1", "node2"], |inputs| {
                let plan = follow(inputs).unwrap();
                let node = plan
                    .tasks
                    .iter()
                    .find(|task| task.host.as_str() == "node2")
                    .unwrap();
                let files: Vec<_> = node.steps.iter().flat_map(|step| step.files()).collect();
                let is_program = |content: &FileContent| matches!(content, FileContent::Bundled(_));
                assert!(
                    !files.iter().any(|file| is_program(&file.content)),
                    "{runtime}"
                );
                let settings = [
                    "config.toml",
                    "daemon.json",
                    "crio.conf.d",
                    ".service",
                    "crictl.yaml",
                ];
                for written in &files {
                    let path = written.path.as_str();
                    assert!(!settings.iter().any(|part| path.contains(part)), "{path}");
                }
                assert!(
                    files.iter().any(|written| written.path.as_str() == file),
                    "{runtime}"
                );
                let mut steps = node.steps.iter().map(|step| step.describe());
                let started = steps.find(|step| step.ends_with(".service"));
                assert_eq!(started.as_deref(), restarts, "{runtime}");
            });
        }
    }

    #[test]
    fn each_node_asks_new_registries_by_their_addresses() {
        with("", &["node1", "node2"], |inputs| {
            let new = ["node2".parse().unwrap()];
            let ask = "Ask 192.0.2.12:5000 as the container runtime does";
            assert_eq!(
                described(&reach(inputs, &new)),
                [
                    format!("registry/reach@node1: {ask}"),
                    format!("registry/reach@node2: {ask}")
                ]
            );
            assert!(resolve(inputs).tasks.is_empty(), "nodes use addresses");
            let both = described(&prove(inputs));
            assert!(
                both[0].ends_with(
                    "Ask 192.0.2.11:5000, 192.0.2.12:5000 as the container runtime does"
                ),
                "{both:?}"
            );
        });
    }

    #[test]
    fn each_node_looks_up_and_asks_the_only_registry_before_the_former_one_ends() {
        with("system: {manageHostsFile: false}", &["node2"], |inputs| {
            let lookup = "Look up registry.kubexm.internal";
            let ask = "Ask registry.kubexm.internal:5000 as the container runtime does";
            let both = |task: &str, steps: &str| {
                ["node1", "node2"].map(|node| format!("registry/{task}@{node}: {steps}"))
            };
            assert_eq!(described(&resolve(inputs)), both("resolve", lookup));
            assert_eq!(
                described(&prove(inputs)),
                both("reach", &format!("{lookup}; {ask}"))
            );
            let absent = Inputs {
                absent: ["node2".parse().unwrap()].into(),
                ..inputs.clone()
            };
            assert!(prove(&absent).tasks.is_empty(), "its host does not answer");
        });
    }
}
