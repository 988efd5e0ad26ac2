//! Renews the certificates and kubeconfigs of a cluster that exists, on one host after another. It needs no bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{
    Certificates, DeployError, HostFacts, Inputs, etcd, health, kubernetes, load_balancer,
    post_install, registry,
};
use kubexm_bundle::{Blobs, BundleError, Lock};
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind};
use kubexm_engine::plan::{Plan, Task, TaskName, TaskValue};
use kubexm_types::{Digest, HostName};

/// Writes new files, where no program of the cluster works any more with the former ones.
const FILES: TaskName = TaskName::new("certificates", "files");
/// Writes new files, and restarts what reads them only when it starts.
const HOST: TaskName = TaskName::new("certificates", "renew");
/// Lets the kubelets of nodes with expired certificates begin again.
const KUBELET_CREDENTIALS: TaskName = TaskName::new("certificates", "kubelet-credentials");
/// Approves certificates that kubelets request, and fetches the kubeconfigs of administrators.
const CLUSTER: TaskName = TaskName::new("certificates", "cluster");

/// How long the programs of a control plane may take until they answer.
const PROGRAMS: Duration = Duration::from_secs(180);

/// What a renewal depends on.
pub struct RenewalInputs<'a> {
    pub cluster: &'a Cluster,
    pub hosts: BTreeMap<HostName, HostFacts>,
    /// The certificates that kubexm issues, new ones where the renewal includes them.
    pub certificates: Certificates,
    /// The hosts whose certificates are renewed.
    pub selected: &'a BTreeSet<HostName>,
    /// Identifies the renewal. What a host did in an interrupted run with the same ID is not repeated.
    pub id: &'a str,
    /// Whether programs of the control planes refuse each other already, because certificates have expired. All hosts
    /// then get new files before a program must be healthy.
    pub has_expired: bool,
    /// Selected nodes of kubeadm whose kubelet has an expired client certificate.
    pub expired_kubelets: BTreeSet<HostName>,
    /// Whether the controller has a kubeconfig of the group `system:masters`.
    pub has_super_admin: bool,
}

/// The plan of a renewal, and what it provides for the controller.
pub struct Renewal {
    pub plan: Plan,
    /// The administrator's kubeconfig. Secret.
    pub kubeconfig: TaskValue<String>,
    /// The kubeconfig of the group `system:masters`, of a cluster with kubeadm. Secret.
    pub super_admin: TaskValue<String>,
}

/// A bundle without content: a renewal installs no program.
struct NoBlobs;

impl Blobs for NoBlobs {
    fn open(&self, digest: &Digest) -> Result<Box<dyn std::io::Read + Send>, BundleError> {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        Err(BundleError::Io {
            path: self.place(digest),
            source,
        })
    }
}

/// Plans a renewal. Each host has one task, which begins after the task of the host before: it ends when the programs of
/// its host are healthy.
///
/// # Errors
/// A file of the controller that belongs on the hosts cannot be read.
pub fn renewal(given: &RenewalInputs<'_>) -> Result<Renewal, DeployError> {
    let lock = Lock::empty("");
    let hosts = given.hosts.clone();
    let inputs = inputs_without_bundle(given.cluster, &lock, hosts, given.certificates.clone());
    let mut selected = in_order(given.cluster);
    selected.retain(|host| given.selected.contains(&host.name));
    let mut tasks = Vec::new();
    if given.has_expired {
        for host in &selected {
            let task = host_task(&inputs, given, host, FILES.task(&host.name))?;
            tasks.push(files_only(task));
        }
    }
    let credentials = credentials(&inputs, given)?;
    for host in &selected {
        let mut task = HOST.task(&host.name);
        if given.expired_kubelets.contains(&host.name) {
            // It starts with a valid certificate without an API server, and must run before static pods can restart.
            let value = &credentials.value;
            task = kubernetes::kubeadm::kubelet_begins_again(given.id, host, value, task);
        }
        tasks.push(host_task(&inputs, given, host, task)?);
    }
    let kubeconfig = TaskValue::new("certificates.kubeconfig");
    let super_admin = TaskValue::new("certificates.super_admin");
    tasks.extend(cluster_task(
        &inputs,
        given,
        &selected,
        &kubeconfig,
        &super_admin,
    )?);
    tasks.retain(|task| !task.steps.is_empty());
    Ok(Renewal {
        plan: chained(credentials.task.into_iter().chain(tasks)),
        kubeconfig,
        super_admin,
    })
}

/// Returns the inputs of a plan that installs no program. `lock` is empty.
pub(super) fn inputs_without_bundle<'a>(
    cluster: &'a Cluster,
    lock: &'a Lock,
    hosts: BTreeMap<HostName, HostFacts>,
    certificates: Certificates,
) -> Inputs<'a> {
    Inputs {
        cluster,
        lock,
        blobs: Arc::new(NoBlobs),
        hosts,
        absent: BTreeSet::new(),
        leaving: BTreeSet::new(),
        certificates,
    }
}

/// Returns a plan in which each task begins after the task before.
pub(super) fn chained(tasks: impl IntoIterator<Item = Task>) -> Plan {
    let mut plan = Plan::default();
    let mut before = None;
    for task in tasks {
        let id = task.id();
        plan.tasks.push(task.after(before.replace(id)));
    }
    plan
}

/// Returns the hosts in the order of their renewal: members of etcd, control planes, and all others.
pub(super) fn in_order(cluster: &Cluster) -> Vec<&HostSpec> {
    let mut hosts: Vec<&HostSpec> = cluster.hosts.iter().collect();
    // The sort keeps the order of the cluster file among equal hosts.
    hosts.sort_by_key(|host| {
        let is_control_plane = cluster.is_control_plane(&host.name);
        (!cluster.roles.etcd.contains(&host.name), !is_control_plane)
    });
    hosts
}

/// Adds the steps of a host to a task.
fn host_task(
    inputs: &Inputs<'_>,
    given: &RenewalInputs<'_>,
    host: &HostSpec,
    mut task: Task,
) -> Result<Task, DeployError> {
    let cluster = inputs.cluster;
    task = etcd::renewed(inputs, host, task)?;
    if cluster.is_control_plane(&host.name) {
        let files = etcd::client_files(inputs)?;
        task = files.into_iter().fold(task, Task::step);
    }
    match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm if cluster.is_control_plane(&host.name) => {
            task = kubernetes::kubeadm::renewed(inputs, host, given.id, task)?;
            let title = format!("Wait until the control plane of {} is healthy", host.name);
            let programs = health::control_plane(cluster).into_iter();
            let programs = programs.chain(health::etcd(cluster)).collect();
            task = task.step(health::wait(title, programs, PROGRAMS));
        }
        KubernetesKind::Kubeadm => {}
        KubernetesKind::Systemd => task = kubernetes::systemd_renewed(inputs, host, task)?,
    }
    task = load_balancer::renewed(inputs, host, task)?;
    match cluster.roles.registry.contains(&host.name) && cluster.registry.external.is_none() {
        true => registry::renewed(inputs, &host.name, task),
        false => Ok(task),
    }
}

/// Removes the steps that restart programs, or that wait for them.
fn files_only(mut task: Task) -> Task {
    task.steps.retain(|step| {
        let files = step.files();
        // A manifest restarts its pod.
        let is_manifest = |path: &str| path.starts_with("/etc/kubernetes/manifests/");
        let writes = !files.is_empty() && !files.iter().any(|file| is_manifest(file.path.as_str()));
        writes || step.id() == kubernetes::kubeadm::CERTIFICATE_FILES
    });
    task
}

/// What kubelets with expired certificates need.
struct Credentials {
    value: TaskValue<BTreeMap<HostName, String>>,
    /// The task that provides it; `None` if no kubelet needs it.
    task: Option<Task>,
}

fn credentials(inputs: &Inputs<'_>, given: &RenewalInputs<'_>) -> Result<Credentials, DeployError> {
    let value = TaskValue::new("certificates.kubelets");
    let task = match inputs
        .first()
        .filter(|_| !given.expired_kubelets.is_empty())
    {
        None => None,
        Some(first) => {
            let nodes = &given.expired_kubelets;
            let step =
                kubernetes::kubeadm::kubelet_credentials(inputs, first, nodes, value.clone())?;
            Some(KUBELET_CREDENTIALS.task(&first.name).step(step))
        }
    };
    Ok(Credentials { value, task })
}

/// Returns the last task, on the first control plane.
fn cluster_task(
    inputs: &Inputs<'_>,
    given: &RenewalInputs<'_>,
    selected: &[&HostSpec],
    kubeconfig: &TaskValue<String>,
    super_admin: &TaskValue<String>,
) -> Result<Option<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(None);
    };
    let mut task = CLUSTER.task(&first.name);
    let nodes: Vec<&HostSpec> = inputs
        .nodes()
        .into_iter()
        .filter(|node| selected.iter().any(|host| host.name == node.name))
        .collect();
    if !nodes.is_empty() {
        task = task.step(kubernetes::approve_serving(inputs, &nodes));
    }
    if given.selected.contains(&first.name) {
        task = task.step(post_install::fetch_kubeconfig(inputs, first, kubeconfig));
        if given.has_super_admin && inputs.cluster.kubernetes.kind == KubernetesKind::Kubeadm {
            task = task.step(kubernetes::kubeadm::super_admin(
                inputs,
                first,
                super_admin,
            )?);
        }
    }
    Ok(Some(task))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use kubexm_config::parse_cluster;

    /// Returns a cluster of three control planes and a worker with these fields of `kubernetes` and these sections.
    pub(crate) fn cluster(kubernetes: &str, sections: &str) -> Cluster {
        parse_cluster("example", &text(kubernetes, sections)).unwrap()
    }

    /// Returns the same cluster with another `highAvailability`.
    pub(crate) fn with_balancer(kubernetes: &str, sections: &str, balancer: &str) -> Cluster {
        let text = text(kubernetes, sections).replace("{type: external}", balancer);
        // A proxy of each node listens on loopback.
        let text = match balancer.contains("run: ") {
            true => text.replace(
                "{domain: api.example, address: 192.0.2.9}",
                "{domain: api.example}",
            ),
            false => text,
        };
        parse_cluster("example", &text).unwrap()
    }

    /// Returns its file.
    fn text(kubernetes: &str, sections: &str) -> String {
        format!(
            "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: example}}
spec:
  hosts:
    - {{name: node4, address: 192.0.2.14}}
    - {{name: node1, address: 192.0.2.11}}
    - {{name: node2, address: 192.0.2.12}}
    - {{name: node3, address: 192.0.2.13}}
  roleGroups: {{control-plane: [node1, node2, node3], worker: [node4], registry: [node1]}}
  controlPlaneEndpoint: {{domain: api.example, address: 192.0.2.9}}
  highAvailability: {{type: external}}
  kubernetes: {{version: 1.36.3, {kubernetes}}}
  {sections}
"
        )
    }

    /// Returns `TASK: STEP` for each step, and checks that each task begins after the one before.
    fn steps(cluster: &Cluster, hosts: &[&str], expired: bool, kubelets: &[&str]) -> Vec<String> {
        let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
        let (selected, expired_kubelets) = (names(hosts), names(kubelets));
        let plan = renewal(&RenewalInputs {
            cluster,
            hosts: BTreeMap::new(),
            certificates: Certificates::placeholder(cluster),
            selected: &selected,
            id: "2026-01-31T12:00:00Z",
            has_expired: expired,
            expired_kubelets,
            has_super_admin: true,
        });
        let tasks = plan.unwrap().plan.tasks;
        kubexm_engine::plan::graph::Graph::new(&Plan { tasks: Vec::new() }).unwrap();
        for pair in tasks.windows(2) {
            assert_eq!(pair[1].after, [pair[0].id()]);
        }
        let steps = tasks.iter().flat_map(|task| {
            let steps = task.steps.iter();
            steps.map(move |step| format!("{}@{}: {}", task.name, task.host, step.id()))
        });
        steps.collect()
    }

    const ALL: [&str; 4] = ["node1", "node2", "node3", "node4"];

    fn tasks(steps: &[String]) -> Vec<&str> {
        let mut tasks: Vec<&str> = steps
            .iter()
            .filter_map(|step| step.split(": ").next())
            .collect();
        tasks.dedup();
        tasks
    }

    #[test]
    fn control_planes_of_kubeadm_are_renewed_one_after_another() {
        let steps = steps(&cluster("", ""), &ALL, false, &[]);
        let expected = ["renew@node1", "renew@node2", "renew@node3", "cluster@node1"];
        assert_eq!(tasks(&steps), expected);
        let files = steps
            .iter()
            .position(|step| step == "renew@node1: kubeadm certificate files");
        let programs = steps
            .iter()
            .position(|step| step == "renew@node1: kubeadm certificate programs");
        assert!(files.is_some() && files < programs, "{steps:#?}");
    }

    /// Programs with expired certificates are healthy only after the others have new ones, too.
    #[test]
    fn all_hosts_get_new_files_before_programs_must_be_healthy_if_certificates_have_expired() {
        for (kubernetes, sections) in [("", ""), ("type: systemd", "etcd: {type: systemd}")] {
            let steps = steps(&cluster(kubernetes, sections), &ALL, true, &[]);
            let last = steps
                .iter()
                .rposition(|step| step.starts_with("files@"))
                .unwrap();
            let first = steps
                .iter()
                .position(|step| step.starts_with("renew@"))
                .unwrap();
            assert!(last < first, "{steps:#?}");
            for host in ["node1", "node2", "node3"] {
                assert!(
                    steps
                        .iter()
                        .any(|step| step.starts_with(&format!("files@{host}")))
                );
            }
            let waits = steps[..=last]
                .iter()
                .filter(|step| step.contains(": wait") || step.contains(": unit"));
            assert_eq!(waits.count(), 0, "{steps:#?}");
        }
    }

    #[test]
    fn kubelet_with_an_expired_certificate_gets_one_from_the_first_control_plane() {
        let steps = steps(&cluster("", ""), &["node4"], false, &["node4"]);
        assert_eq!(
            steps,
            [
                "kubelet-credentials@node1: provide certificates.kubelets",
                "renew@node4: kubelet credentials",
                "cluster@node1: kubelet serving certificates"
            ]
        );
    }

    /// A renewal without a bundle writes only what it renews.
    #[test]
    fn units_restart_after_their_certificates_are_written() {
        let cluster = cluster("type: systemd", "etcd: {type: systemd}");
        let steps = steps(&cluster, &ALL, false, &[]);
        let expected = [
            "renew@node1",
            "renew@node2",
            "renew@node3",
            "renew@node4",
            "cluster@node1",
        ];
        assert_eq!(tasks(&steps), expected);
        let at = |step: &str| steps.iter().position(|found| found == step);
        let file = at("renew@node2: file /etc/kubernetes/pki/apiserver.crt");
        let unit = at("renew@node2: unit kube-apiserver.service");
        assert!(file.is_some() && file < unit, "{steps:#?}");
        assert!(at("renew@node4: file /etc/kubernetes/kube-proxy.conf").is_some());
        let other = |step: &&String| step.contains(".yaml") || step.contains("/etc/systemd");
        assert_eq!(steps.iter().find(other), None, "{steps:#?}");
    }
    /// kube-vip reads its kubeconfig only when it starts, and the former certificate in it ends.
    #[test]
    fn kube_vip_restarts_with_its_new_certificate() {
        let steps_of = |kubernetes, sections, expired| {
            let cluster = with_balancer(kubernetes, sections, "{type: kube-vip}");
            steps(&cluster, &ALL, expired, &[])
        };
        let at = |steps: &[String], step: &str| {
            let found = steps.iter().position(|found| found == step);
            found.unwrap_or_else(|| panic!("{step} is not in {steps:#?}"))
        };
        let kubeadm = steps_of("", "", false);
        let (files, restart) = (
            "renew@node2: kubeadm certificate files",
            "renew@node2: load balancer pod",
        );
        assert!(at(&kubeadm, files) < at(&kubeadm, restart));
        let (file, manifest) = (
            "renew@node2: file /etc/kubernetes/kube-vip.conf",
            "renew@node2: file /etc/kubernetes/manifests/kube-vip.yaml",
        );
        for expired in [false, true] {
            let units = steps_of("type: systemd", "etcd: {type: systemd}", expired);
            assert!(at(&units, file) < at(&units, manifest));
            let early = units
                .iter()
                .find(|step| step.starts_with("files@") && step.contains("manifests"));
            assert_eq!(early, None);
        }
    }
}
