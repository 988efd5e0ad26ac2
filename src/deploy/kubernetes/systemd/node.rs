//! kubelet and kube-proxy on every node, control planes included.

use std::collections::BTreeMap;

use super::files::{self, CA, Files};
use crate::kubernetes::config;
use crate::{BIN, DeployError, Inputs, runtime};
use kubexm_config::cluster::{HostSpec, Taint};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{ManageUnit, RunScript};
use kubexm_pki::kubernetes::{ClusterPki, NodePki, node_user};
use kubexm_render::kubeadm::{OwnKubeProxy, OwnKubelet};
use kubexm_render::kubelet;
use kubexm_render::kubernetes as template;
use kubexm_render::kubernetes::KubeProxyService;
use kubexm_scripts::kubernetes as scripts;
use kubexm_types::HostPath;

const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";
const KUBE_PROXY: &str = "/etc/kubernetes/kube-proxy.conf";
const KUBE_PROXY_CONFIG: &str = "/etc/kubernetes/kube-proxy.yaml";
const STATIC_PODS: &str = "/etc/kubernetes/manifests";
const RESOLV_CONF: &str = "/etc/kubernetes/resolv.conf";

/// Label and taint of a control plane; the taint keeps pods off it, unless the user says otherwise
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/#node-role-kubernetes-io-control-plane-taint>).
pub(super) const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// Certificates, configurations and units of both.
pub(super) fn steps(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    own: &NodePki,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    let check = scripts::KUBELET_SURROUNDINGS.verb("check");
    let make = scripts::KUBELET_SURROUNDINGS.verb("apply");
    let title = "Prepare the kubelet's surroundings";
    let surroundings = RunScript::new("kubelet surroundings", title, check, make)
        .arguments([STATIC_PODS, RESOLV_CONF])
        .undo_script(
            "Remove the kubelet's surroundings",
            scripts::KUBELET_SURROUNDINGS_REMOVE,
        );
    let mut kubelet_files = kubelet_files(inputs, pki, own, host)?;
    let proxy_files = proxy_files(inputs, pki, own, host)?;
    let mut task = task.step(surroundings);
    let command = template::command(&format!("{BIN}/kubelet"), &kubelet_flags(inputs, host));
    let runtime = runtime::of_cluster(inputs).unit().to_owned();
    let unit = kubexm_render::text("kubelet unit", &kubelet::Service { command, runtime })?;
    kubelet_files.open("/etc/systemd/system/kubelet.service", &unit)?;
    task = run(task, "kubelet", kubelet_files)?;
    run(task, "kube-proxy", proxy_files)
}

/// Files with a unit among them, and the unit running.
fn run(task: Task, name: &str, files: Files) -> Result<Task, DeployError> {
    let mut reads = files.paths();
    reads.push(HostPath::parse(&format!("{BIN}/{name}"))?);
    let task = files.into_steps().into_iter().fold(task, Task::step);
    Ok(task.step(ManageUnit {
        name: format!("{name}.service"),
        files: reads,
        start: true,
    }))
}

/// The kubelet's first client certificate is signed here, and lies in its kubeconfig: a bootstrap
/// token would let whoever holds it become any node, this lets its node be itself. With it the
/// kubelet asks at its first start for another one, whose key never leaves the host, keeps that in
/// `/var/lib/kubelet/pki` and renews it by itself. Should that have expired while the host was off,
/// it comes back to this one, which every install renews in its last 30 days.
fn kubelet_files(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    own: &NodePki,
    host: &HostSpec,
) -> Result<Files, DeployError> {
    let cluster = inputs.cluster;
    let mut files = Files::default();
    files.open(CA, &pki.ca.certificate)?;
    let user = node_user(&host.name);
    let user = (user.as_str(), &own.kubelet);
    files.kubeconfig(KUBELET, cluster, pki, &files::endpoint(cluster), user)?;
    let of_node = OwnKubelet {
        ca: CA.to_owned(),
        runtime: runtime::of_cluster(inputs).socket().to_owned(),
        resolv_conf: RESOLV_CONF.to_owned(),
        static_pods: STATIC_PODS.to_owned(),
        taints: taints(inputs, host),
    };
    files.open(
        KUBELET_CONFIG,
        &config::kubelet_config(cluster, Some(of_node))?,
    )?;
    Ok(files)
}

fn kubelet_flags(inputs: &Inputs<'_>, host: &HostSpec) -> BTreeMap<String, String> {
    let ours = [
        ("config", KUBELET_CONFIG.to_owned()),
        ("hostname-override", host.name.to_string()),
        ("kubeconfig", KUBELET.to_owned()),
        ("node-ip", host.internal_address.to_string()),
    ];
    let mut flags: BTreeMap<String, String> =
        ours.map(|(name, value)| (name.to_owned(), value)).into();
    flags.extend(inputs.cluster.kubernetes.kubelet.extra_args.clone());
    flags
}

/// Taints that the node registers with: the user's, or what keeps pods off a control plane.
fn taints(inputs: &Inputs<'_>, host: &HostSpec) -> Vec<Taint> {
    let control_plane = || Taint {
        key: CONTROL_PLANE.to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    };
    match (&host.taints, inputs.cluster.is_control_plane(&host.name)) {
        (Some(taints), _) => taints.clone(),
        (None, true) => vec![control_plane()],
        (None, false) => Vec::new(),
    }
}

fn proxy_files(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    own: &NodePki,
    host: &HostSpec,
) -> Result<Files, DeployError> {
    let cluster = inputs.cluster;
    let mut files = Files::default();
    let user = ("system:kube-proxy", &own.proxy);
    files.kubeconfig(KUBE_PROXY, cluster, pki, &files::endpoint(cluster), user)?;
    let of_node = OwnKubeProxy {
        kubeconfig: KUBE_PROXY.to_owned(),
        node: host.name.to_string(),
    };
    files.open(
        KUBE_PROXY_CONFIG,
        &config::kube_proxy_config(cluster, Some(of_node))?,
    )?;
    let mut flags = cluster.kubernetes.kube_proxy.extra_args.clone();
    flags.insert("config".to_owned(), KUBE_PROXY_CONFIG.to_owned());
    let command = template::command(&format!("{BIN}/kube-proxy"), &flags);
    let unit = kubexm_render::text("kube-proxy unit", &KubeProxyService { command })?;
    files.open("/etc/systemd/system/kube-proxy.service", &unit)?;
    Ok(files)
}
