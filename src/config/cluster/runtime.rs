//! `spec.containerRuntime`.

use std::collections::BTreeMap;

use kubexm_kinds::RuntimeKind;
use kubexm_kinds::runtime::{CRI, PODS};
use kubexm_types::{HandlerName, HostPath, LabelKey, LabelValue};
use serde_json::Value;

use super::{CgroupDriver, FormerNames, SiteRegistry};

/// Former values of `containerRuntime.type`.
pub(crate) const FORMER_RUNTIMES: FormerNames = &[("crio", "cri-o")];

/// The container runtime of every node.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub kind: RuntimeKind,
    /// Settings that are merged into the main configuration file; may be an empty object.
    pub extra_config: Value,
    /// The cgroup driver of the runtime and of the kubelet.
    pub cgroup_driver: CgroupDriver,
    /// Registries besides that of the cluster.
    pub registries: Vec<SiteRegistry>,
    /// The runtime classes of the cluster.
    pub classes: Vec<RuntimeClass>,
}

/// A runtime class of Kubernetes: pods that name it run with another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeClass {
    /// The name of the class, and of its handler in the runtime.
    pub name: HandlerName,
    /// The OCI runtime on the nodes; `None` for a handler that the runtime has.
    pub program: Option<HostPath>,
    /// The labels of the nodes that have the program; empty if all have it.
    pub node_selector: BTreeMap<LabelKey, LabelValue>,
}

impl Runtime {
    /// Returns the string at a path of field names in the user's settings, or the default.
    pub fn setting<'a>(&'a self, names: &[&str], default: &'a str) -> &'a str {
        let mut value = &self.extra_config;
        for name in names {
            value = &value[name];
        }
        value.as_str().unwrap_or(default)
    }

    /// Returns the directory of images and containers.
    pub fn data_directory(&self) -> &str {
        let own = self.kind.properties();
        self.setting(own.data_setting, own.data_directory)
    }

    /// Returns the cgroup driver in the settings of the user; `None` if they have none.
    pub(crate) fn given_cgroup_driver(&self) -> Option<CgroupDriver> {
        let settings = &self.extra_config;
        let systemd = |on: bool| {
            if on {
                CgroupDriver::Systemd
            } else {
                CgroupDriver::Cgroupfs
            }
        };
        match self.kind {
            RuntimeKind::Containerd => {
                let plugins = [PODS, CRI].iter();
                let mut options = plugins.map(|plugin| {
                    let runc = &settings["plugins"][plugin]["containerd"]["runtimes"]["runc"];
                    runc["options"]["SystemdCgroup"].as_bool()
                });
                options.find_map(|option| option.map(systemd))
            }
            RuntimeKind::CriO => {
                let name = settings["crio"]["runtime"]["cgroup_manager"].as_str()?;
                CgroupDriver::named(name)
            }
            RuntimeKind::Docker => {
                let options = settings["exec-opts"].as_array()?.iter();
                let mut names = options
                    .filter_map(|option| option.as_str()?.strip_prefix("native.cgroupdriver="));
                CgroupDriver::named(names.next()?)
            }
            RuntimeKind::Isulad => settings["systemd-cgroup"].as_bool().map(systemd),
        }
    }
}
