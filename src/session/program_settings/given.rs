//! What a cluster file gives to the programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Refusal;
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::Cluster;
use kubexm_config::cluster::{Component, Etcd};
use kubexm_deploy::DeployError;
use kubexm_deploy::completeness::kubeadm_configs;
use kubexm_deploy::component_configs::component_configs;
use kubexm_types::Version;
use serde_json::Value;

/// The settings of one program.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// As in `kube-apiserver`.
    pub(super) program: &'static str,
    /// The section of the cluster file, as in `kubernetes.apiServer`.
    section: &'static str,
    /// Flags, by their fields.
    pub(super) flags: Vec<(String, String)>,
    /// Flags of one feature gate each, by their fields.
    pub(super) gates: Vec<(String, String)>,
    /// The configurations of the hosts, if the cluster file changes them.
    pub(super) configs: Vec<String>,
}

impl Given {
    pub(super) fn new(program: &'static str, section: &'static str) -> Self {
        Self {
            program,
            section,
            ..Self::default()
        }
    }

    fn with_flags(mut self, flags: &BTreeMap<String, String>) -> Self {
        let flag = |(name, value): (&String, &String)| {
            (
                format!("{}.extraArgs.{name}", self.section),
                format!("--{name}={value}"),
            )
        };
        self.flags = flags.iter().map(flag).collect();
        self
    }

    fn is_empty(&self) -> bool {
        self.flags.is_empty() && self.gates.is_empty() && self.configs.is_empty()
    }

    pub(super) fn config_field(&self) -> String {
        format!("{}.extraConfig", self.section)
    }

    pub(super) fn refusal(&self, version: &Version, field: &str, reason: &str) -> Refusal {
        let reason = match self.program {
            "etcd" => format!("etcd refuses it: {reason}"),
            program => format!("{program} {version} refuses it: {reason}"),
        };
        Refusal {
            field: field.to_owned(),
            reason,
        }
    }
}

/// Returns the settings of all programs that have some.
///
/// # Errors
/// The cluster cannot be planned with this lock.
pub(super) fn by_cluster(
    cluster: &Cluster,
    lock: &Lock,
    blobs: &Arc<dyn Blobs>,
) -> Result<Vec<Given>, DeployError> {
    let kubernetes = &cluster.kubernetes;
    let of = |program, section, component: &Component| {
        let mut given = Given::new(program, section).with_flags(&component.extra_args);
        let gate = |(name, value): (&String, &bool)| {
            (
                format!("{section}.featureGates.{name}"),
                format!("--feature-gates={name}={value}"),
            )
        };
        given.gates = component.feature_gates.iter().map(gate).collect();
        given
    };
    let mut all = vec![
        of(
            "kube-apiserver",
            "kubernetes.apiServer",
            &kubernetes.api_server.component,
        ),
        of(
            "kube-controller-manager",
            "kubernetes.controllerManager",
            &kubernetes.controller_manager,
        ),
        of(
            "kube-scheduler",
            "kubernetes.scheduler",
            &kubernetes.scheduler,
        ),
        of("kubelet", "kubernetes.kubelet", &kubernetes.kubelet),
        of(
            "kube-proxy",
            "kubernetes.kubeProxy",
            &kubernetes.kube_proxy.component,
        ),
    ];
    if let Etcd::Kubeadm { extra_args, .. } | Etcd::Systemd { extra_args, .. } = &cluster.etcd {
        all.push(Given::new("etcd", "etcd").with_flags(extra_args));
    }
    let configured = [
        ("kubelet", &kubernetes.kubelet.extra_config),
        ("kube-proxy", &kubernetes.kube_proxy.component.extra_config),
        ("kube-scheduler", &kubernetes.scheduler.extra_config),
    ];
    let is_changed = |value: &Value| value.as_object().is_some_and(|fields| !fields.is_empty());
    let changed = configured
        .into_iter()
        .filter(|(_, value)| is_changed(value));
    let changed: Vec<&str> = changed.map(|(program, _)| program).collect();
    if !changed.is_empty() {
        for config in component_configs(cluster, lock, blobs)? {
            let given = all.iter_mut().find(|given| given.program == config.program);
            if let Some(given) = given.filter(|given| changed.contains(&given.program)) {
                given.configs.push(config.text);
            }
        }
    }
    let kubeadm = &kubernetes.kubeadm.config;
    if [&kubeadm.init, &kubeadm.cluster, &kubeadm.join]
        .into_iter()
        .any(is_changed)
    {
        let mut given = Given::new("kubeadm", "kubernetes.kubeadm");
        // That of `kubeadm init`, and that of one join: the fields of the user are the same in all of them.
        let configs = kubeadm_configs(cluster)?.into_iter().take(2);
        given.configs = configs.map(|config| config.text).collect();
        all.push(given);
    }
    all.retain(|given| !given.is_empty());
    Ok(all)
}
