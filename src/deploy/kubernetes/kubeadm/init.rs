//! `kubeadm init` on the first control plane.

use super::{etcd, node, ready_to_join, undo};
use crate::deploy::kubernetes::BIND_PORT;
use crate::deploy::{self, BIN, DeployError, ETC, Inputs};
use crate::plan::Task;
use crate::render::kubeadm::{self as template, ComponentSection};
use crate::render::{self, RenderError, merge};
use crate::spec::HostPath;
use crate::spec::cluster::{Cluster, Component, HostSpec};
use crate::steps::{RunOnce, WriteFile};

/// Writes the configuration and runs `kubeadm init` with it.
pub(super) fn init(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Task, DeployError> {
    let path = HostPath::parse(&format!("{ETC}/kubeadm-init.yaml"))?;
    Ok(Task::new("control-plane", "init", &first.name)
        .after(ready_to_join(first))
        .after(deploy::etcd::ready(inputs))
        .step(WriteFile::new(
            path.clone(),
            init_config(inputs.cluster, first)?,
        ))
        .step(RunOnce {
            id: "kubeadm-init".to_owned(),
            title: "Run kubeadm init".to_owned(),
            command: format!("export PATH={BIN}:$PATH; kubeadm init --config {path} >/dev/null"),
            input: None,
            cleanup: undo::cleanup(),
            undo: vec![undo::undo()],
        }))
}

/// The four documents of `kubeadm init`.
pub(crate) fn init_config(cluster: &Cluster, first: &HostSpec) -> Result<String, RenderError> {
    let kubernetes = &cluster.kubernetes;
    let (api, list) = template::api_of(&kubernetes.version);
    let mut api_server = section("apiServer", &kubernetes.api_server);
    api_server.cert_sans = kubernetes.cert_sans.clone();
    render::text(
        "kubeadm init configuration",
        &template::Init {
            api,
            list,
            advertise_address: first.internal_address.to_string(),
            bind_port: BIND_PORT,
            node: node(cluster, first),
            version: format!("v{}", kubernetes.version),
            cluster_name: kubernetes.cluster_name.clone(),
            endpoint: cluster.control_plane_endpoint.to_string(),
            dns_domain: kubernetes.dns_domain.clone(),
            pod_cidr: cluster.network.pod_cidr.clone(),
            service_cidr: cluster.network.service_cidr.clone(),
            components: vec![
                api_server,
                section("controllerManager", &kubernetes.controller_manager),
                section("scheduler", &kubernetes.scheduler),
            ],
            etcd: etcd::section(cluster),
            kubelet: kubelet_config(cluster)?,
            kube_proxy: kube_proxy_config(cluster)?,
        },
    )
}

/// One of the three control plane programs: its flags, feature gates among them.
fn section(section: &'static str, component: &Component) -> ComponentSection {
    let mut args = component.extra_args.clone();
    if !component.feature_gates.is_empty() {
        let gates = component.feature_gates.iter();
        let gates: Vec<String> = gates.map(|(name, on)| format!("{name}={on}")).collect();
        args.insert("feature-gates".to_owned(), gates.join(","));
    }
    ComponentSection {
        section,
        args,
        cert_sans: Vec::new(),
    }
}

fn kubelet_config(cluster: &Cluster) -> Result<String, RenderError> {
    let what = "kubelet configuration";
    let kubelet = &cluster.kubernetes.kubelet;
    let text = render::text(
        what,
        &template::Kubelet {
            dns_address: cluster.kubelet_dns_address().to_string(),
            dns_domain: cluster.kubernetes.dns_domain.clone(),
            feature_gates: kubelet.feature_gates.clone(),
        },
    )?;
    merge::yaml(what, text, &kubelet.extra_config)
}

fn kube_proxy_config(cluster: &Cluster) -> Result<String, RenderError> {
    let what = "kube-proxy configuration";
    let kube_proxy = &cluster.kubernetes.kube_proxy;
    let text = render::text(
        what,
        &template::KubeProxy {
            mode: cluster.kubernetes.proxy_mode.name().to_owned(),
            pod_cidr: cluster.network.pod_cidr.clone(),
            feature_gates: cluster.kubernetes.proxy_feature_gates(),
        },
    )?;
    merge::yaml(what, text, &kube_proxy.extra_config)
}
