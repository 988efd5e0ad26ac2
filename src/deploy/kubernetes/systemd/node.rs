//! kubelet and kube-proxy on every node, including control planes.

use std::collections::BTreeMap;

use super::files::{self, CA, Files};
use crate::kubernetes::config;
use crate::kubernetes::node_metadata::CONTROL_PLANE;
use crate::{BIN, DeployError, Inputs};
use kubexm_config::cluster::{HostSpec, Taint};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{ManageUnit, RunScript, Undo};
use kubexm_pki::kubernetes::{ClusterPki, NodePki, node_user};
use kubexm_render::kubeadm::{OwnKubeProxy, OwnKubelet};
use kubexm_render::kubelet;
use kubexm_render::kubernetes as template;
use kubexm_render::kubernetes::KubeProxyService;
use kubexm_scripts::kubernetes as scripts;
use kubexm_scripts::undo::KUBELET_SURROUNDINGS_REMOVE;
use kubexm_types::{HostPath, InvalidValue, LabelKey, LabelValue};

const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";
const KUBE_PROXY: &str = "/etc/kubernetes/kube-proxy.conf";
const KUBE_PROXY_CONFIG: &str = "/etc/kubernetes/kube-proxy.yaml";
const STATIC_PODS: &str = "/etc/kubernetes/manifests";
const RESOLV_CONF: &str = "/etc/kubernetes/resolv.conf";

/// Adds the steps that configure and start kubelet and kube-proxy.
pub(super) fn steps(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    own: &NodePki,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    let check = scripts::KUBELET_SURROUNDINGS.verb("check");
    let apply = scripts::KUBELET_SURROUNDINGS.verb("apply");
    let title = "Create the kubelet's directory of static pods and its resolv.conf";
    let environment = RunScript::new("kubelet surroundings", title, check, apply)
        .arguments([STATIC_PODS, RESOLV_CONF])
        .undo(Undo::run(
            KUBELET_SURROUNDINGS_REMOVE,
            [STATIC_PODS, RESOLV_CONF],
        ));
    let mut kubelet_files = kubelet_files(inputs, pki, own, host)?;
    let proxy_files = proxy_files(inputs, pki, own, host)?;
    let mut task = task.step(environment);
    let command = template::command(&format!("{BIN}/kubelet"), &kubelet_flags(inputs, host));
    let runtime = inputs.cluster.runtime.kind.properties().unit.to_owned();
    let unit = kubelet::Service {
        command,
        runtime,
        own_flags: &kubelet::OWN_FLAGS,
    };
    let unit = kubexm_render::text("kubelet unit", &unit)?;
    kubelet_files.protected("/etc/systemd/system/kubelet.service", &unit)?;
    // The kubelet restarts if an administrator changes them.
    let own_flags = kubelet::OWN_FLAGS.into_iter().map(HostPath::parse);
    let own_flags: Vec<HostPath> = own_flags.collect::<Result<_, _>>()?;
    task = run(task, "kubelet", kubelet_files, own_flags)?;
    run(task, "kube-proxy", proxy_files, Vec::new())
}

/// Adds the steps that write a program's files, and that start its unit. The unit reads `others`, too.
fn run(task: Task, name: &str, files: Files, others: Vec<HostPath>) -> Result<Task, DeployError> {
    let mut reads = files.paths();
    reads.extend(others);
    reads.push(HostPath::parse(&format!("{BIN}/{name}"))?);
    let task = files.into_steps().into_iter().fold(task, Task::step);
    Ok(task.step(ManageUnit {
        name: format!("{name}.service"),
        files: reads,
        reload: None,
        start: true,
    }))
}

/// Returns the files of the kubelet.
///
/// Its kubeconfig contains a first client certificate from kubexm. A bootstrap token would permit its owner to
/// impersonate any node; this certificate is valid only for its node. With it the kubelet requests another
/// certificate at its first start. The key of that certificate stays on the host in `/var/lib/kubelet/pki`, and
/// the kubelet renews it. If it expires while the host is off, the kubelet uses the first certificate again,
/// which an install renews in its last 30 days.
fn kubelet_files(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    own: &NodePki,
    host: &HostSpec,
) -> Result<Files, DeployError> {
    let cluster = inputs.cluster;
    let mut files = Files::default();
    files.readable(CA, &pki.trusted)?;
    let user = node_user(&host.name);
    let user = (user.as_str(), &own.kubelet);
    files.kubeconfig(
        KUBELET,
        cluster,
        pki,
        &files::node_server(cluster, host),
        user,
    )?;
    let own = OwnKubelet {
        ca: CA.to_owned(),
        runtime: inputs.cluster.runtime.kind.properties().socket.to_owned(),
        resolv_conf: RESOLV_CONF.to_owned(),
        static_pods: STATIC_PODS.to_owned(),
        taints: taints(inputs, host)?,
    };
    files.protected(KUBELET_CONFIG, &config::kubelet_config(cluster, Some(own))?)?;
    Ok(files)
}

fn kubelet_flags(inputs: &Inputs<'_>, host: &HostSpec) -> BTreeMap<String, String> {
    let defaults = [
        ("config", KUBELET_CONFIG.to_owned()),
        ("hostname-override", host.name.to_string()),
        ("kubeconfig", KUBELET.to_owned()),
        ("node-ip", host.internal_addresses.to_string()),
    ];
    let mut flags: BTreeMap<String, String> = defaults
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    flags.extend(inputs.cluster.kubernetes.kubelet.extra_args.clone());
    flags
}

/// Returns the taints of a node: those of the user, or the default taint of a control plane.
fn taints(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Vec<Taint>, InvalidValue> {
    let control_plane = || {
        Ok(Taint {
            key: LabelKey::parse(CONTROL_PLANE)?,
            value: LabelValue::default(),
            effect: "NoSchedule".to_owned(),
        })
    };
    match (&host.taints, inputs.cluster.is_control_plane(&host.name)) {
        (Some(taints), _) => Ok(taints.clone()),
        (None, true) => Ok(vec![control_plane()?]),
        (None, false) => Ok(Vec::new()),
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
    files.kubeconfig(
        KUBE_PROXY,
        cluster,
        pki,
        &files::node_server(cluster, host),
        user,
    )?;
    let own = OwnKubeProxy {
        kubeconfig: KUBE_PROXY.to_owned(),
        node: host.name.to_string(),
    };
    files.protected(
        KUBE_PROXY_CONFIG,
        &config::kube_proxy_config(cluster, Some(own))?,
    )?;
    let mut flags = cluster.kubernetes.kube_proxy.component.extra_args.clone();
    flags.insert("config".to_owned(), KUBE_PROXY_CONFIG.to_owned());
    let command = template::command(&format!("{BIN}/kube-proxy"), &flags);
    let unit = kubexm_render::text("kube-proxy unit", &KubeProxyService { command })?;
    files.readable("/etc/systemd/system/kube-proxy.service", &unit)?;
    Ok(files)
}
