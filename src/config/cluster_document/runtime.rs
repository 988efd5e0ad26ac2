//! `spec.containerRuntime`.

use std::collections::BTreeSet;

use kubexm_types::{HandlerName, HostPath};
use serde_json::Value;

use super::contradiction::refuse;
use super::own_fields;
use super::registries::read_registries;
use crate::cluster::{CgroupDriver, Cluster, FORMER_RUNTIMES, Runtime, RuntimeClass, RuntimeKind};
use crate::reader::{Choice, Fields, accept};

pub(super) fn read_runtime(spec: &Fields<'_>) -> Option<Runtime> {
    let Some(fields) = spec.section("containerRuntime") else {
        return Some(Runtime {
            kind: RuntimeKind::Containerd,
            extra_config: serde_json::json!({}),
            cgroup_driver: CgroupDriver::Systemd,
            registries: Vec::new(),
            classes: Vec::new(),
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
    let classes = kind.map_or(Vec::new(), |kind| read_classes(&fields, kind));
    fields.finish();
    Some(Runtime {
        kind: kind?,
        extra_config,
        cgroup_driver: cgroup_driver.unwrap_or(CgroupDriver::Systemd),
        registries,
        classes,
    })
}

fn read_classes(fields: &Fields<'_>, kind: RuntimeKind) -> Vec<RuntimeClass> {
    let handlers = kind.properties().handlers;
    if handlers.is_empty() {
        let hint = "remove it, or use containerd or cri-o";
        fields.refuse("runtimes", "the runtime has one handler only", hint);
        return Vec::new();
    }
    let mut names = BTreeSet::new();
    fields.sections("runtimes", |class| {
        let name = class
            .required("name")
            .and_then(|_| class.value::<HandlerName>("name"))?;
        if !names.insert(name.clone()) {
            let message = format!("another runtime has the name {name}");
            class.problem("name", message, Some("remove one of them"));
        }
        let program = class.value::<HostPath>("path");
        let is_own = handlers.contains(&name.as_str());
        if is_own && program.is_some() {
            let message = format!("the handler {name} has the program that kubexm installs");
            let hint = "remove path, or give the runtime another name";
            class.refuse("path", &message, hint);
        }
        if !is_own && class.get("path").is_none() {
            let hint = "write the path of the program on the nodes, as in /usr/bin/crun";
            class.problem_here("expected path", Some(hint));
        }
        Some(RuntimeClass {
            name,
            program,
            node_selector: class.map("nodeSelector"),
        })
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
