//! `spec.containerRuntime`.

use serde_json::Value;

use super::contradiction::refuse;
use super::own_fields;
use super::registries::read_registries;
use crate::cluster::{CgroupDriver, Cluster, FORMER_RUNTIMES, Runtime, RuntimeKind};
use crate::reader::{Choice, Fields, accept};

pub(super) fn read_runtime(spec: &Fields<'_>) -> Option<Runtime> {
    let Some(fields) = spec.section("containerRuntime") else {
        return Some(Runtime {
            kind: RuntimeKind::Containerd,
            extra_config: serde_json::json!({}),
            cgroup_driver: CgroupDriver::Systemd,
            registries: Vec::new(),
        });
    };
    let kind = match fields.get("type") {
        None => Some(RuntimeKind::Containerd),
        Some(_) => {
            let choice = Choice {
                former: FORMER_RUNTIMES,
                ..accept(RuntimeKind::NAMES)
            };
            fields.choice("type", choice).and_then(RuntimeKind::named)
        }
    };
    if let Some(kind) = kind {
        for (names, hint) in kind.properties().own_settings {
            own_fields::refuse(&fields, "extraConfig", names, hint);
        }
    }
    let extra_config = fields.json_object("extraConfig");
    let cgroup_driver = fields.one_of("cgroupDriver", CgroupDriver::ALL, CgroupDriver::name);
    let registries = read_registries(&fields);
    fields.finish();
    Some(Runtime {
        kind: kind?,
        extra_config,
        cgroup_driver: cgroup_driver.unwrap_or(CgroupDriver::Systemd),
        registries,
    })
}

/// Refuses settings of the kubelet and of the runtime with another cgroup driver: pods then do not start.
pub(super) fn check_cgroup_driver(spec: &Fields<'_>, cluster: &Cluster) {
    let driver = cluster.runtime.cgroup_driver;
    let refuse_driver = |path: &str, given: &str| {
        let message = format!(
            "is {given}, and the cgroup driver of the cluster is {}",
            driver.name()
        );
        let hint =
            "set containerRuntime.cgroupDriver, which applies to the runtime and the kubelet";
        refuse(spec, path, &message, hint);
    };
    let given = |settings: &Value| {
        let name = settings["cgroupDriver"].as_str()?;
        (name != driver.name()).then(|| name.to_owned())
    };
    let kubelet = &cluster.kubernetes.kubelet.extra_config;
    if let Some(other) = given(kubelet) {
        refuse_driver("spec.kubernetes.kubelet.extraConfig.cgroupDriver", &other);
    }
    for (at, patch) in cluster.kubernetes.kubeadm.patches.iter().enumerate() {
        if let Some(other) = given(&patch.change) {
            let path = format!("spec.kubernetes.kubeadm.patches[{at}].patch");
            refuse_driver(&path, &other);
        }
    }
    if let Some(other) = cluster
        .runtime
        .given_cgroup_driver()
        .filter(|other| *other != driver)
    {
        refuse_driver("spec.containerRuntime.extraConfig", other.name());
    }
}
