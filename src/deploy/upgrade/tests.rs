use super::*;
use crate::HostFacts;
use crate::example::with_inputs;
use kubexm_config::Cluster;
use kubexm_config::example::cluster_of;
use kubexm_engine::plan::graph::Graph;
use std::time::Duration;

const IMAGES: [&str; 3] = [
    "ghcr.io/kube-vip/kube-vip:v0.9.1",
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
    tasks_of(
        &cluster_of(ROLES, "", SECTIONS),
        held,
        max_unavailable,
        has_drain,
        change,
    )
}

const ROLES: &str = "control-plane: [c1, c2, c3], worker: [w1, w2, w3], registry: [w3]";
const SECTIONS: &str =
    "highAvailability: {type: kube-vip}\ncontrolPlaneEndpoint: {address: 192.0.2.99}";

/// Like [`tasks_with`], for a cluster.
fn tasks_of(
    cluster: &Cluster,
    held: &[&str],
    max_unavailable: usize,
    has_drain: bool,
    change: impl Fn(&mut BTreeMap<HostName, HostFacts>),
) -> Vec<Task> {
    with_inputs(cluster, &IMAGES, "", |inputs| {
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
                ..inputs.clone()
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

/// A control plane that was replaced is the first one of the cluster file, but another one has the settings of the cluster.
#[test]
fn control_plane_with_the_settings_of_the_cluster_is_upgraded_first() {
    let units = format!("{SECTIONS}\netcd: {{type: systemd}}");
    for (kubernetes, sections) in [("", SECTIONS), ("type: systemd", &units)] {
        let cluster = cluster_of(ROLES, kubernetes, sections);
        let tasks = tasks_of(&cluster, &[], 1, true, |hosts| {
            let host = hosts.get_mut(&"c2".parse::<HostName>().unwrap()).unwrap();
            host.has_cluster_files = true;
        });
        assert!(waits(&tasks, "upgrade/drain-c1@c2", "upgrade/return-c2@c2"));
        assert!(waits(&tasks, "upgrade/drain-c3@c2", "upgrade/return-c1@c2"));
    }
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
        // The API server restarts after another control plane has the address.
        let endpoint = format!("upgrade/endpoint@{host}");
        assert_eq!(has(&tasks, &endpoint), host.starts_with('c'));
        for entry in entries(&host.parse().unwrap()) {
            assert!(waits(&tasks, &entry.0, &drain), "{entry}");
            assert!(!has(&tasks, &endpoint) || waits(&tasks, &entry.0, &endpoint));
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
            "end shims",
            "install containerd ",
            "unit containerd.service",
            "wait Wait until containerd answers",
            "kubelet after containerd",
            "wait kubelet after containerd",
            "pods after containerd",
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
fn containerd_that_an_interrupted_run_has_begun_to_replace_is_complete_before_other_nodes_change() {
    let tasks = tasks_with(&["w1", "w2"], 1, true, |hosts| {
        let facts = hosts.get_mut(&"w2".parse::<HostName>().unwrap()).unwrap();
        facts.pods_ended = true;
    });
    assert!(!has(&tasks, "runtime/install@w1"));
    assert!(steps(&tasks, "runtime/install@w2").contains(&"kubelet after containerd".to_owned()));
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
            "kubelet files",
            "kubelet stop",
            "kubelet settings",
            "wait kubelet settings",
            "kubelet settings confirmed",
            "kubelet version",
            "wait kubelet version",
            "endpoint returns",
            // The certificate in the kubeconfig with which kube-vip started ends before the one that kubeadm has renewed.
            "load balancer pod",
            "wait load balancer pod",
            "wait Wait until the endpoint answers through kube-vip",
        ]
    );
    assert!(!steps("upgrade/node@w1").contains(&"load balancer pod".to_owned()));
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
