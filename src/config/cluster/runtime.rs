//! `spec.containerRuntime`, and what kubexm knows of each container runtime on hosts. `runtime` of the crate `deploy` installs
//! them.

use serde_json::Value;

use super::{CgroupDriver, FormerNames, SiteRegistry};

/// Former values of `containerRuntime.type`.
pub(crate) const FORMER_RUNTIMES: FormerNames = &[("crio", "cri-o")];

named_kinds! {
    /// Container runtimes: values of `spec.containerRuntime.type`.
    RuntimeKind {
        /// containerd with its CRI plugin.
        Containerd = "containerd",
        CriO = "cri-o",
        /// Docker Engine behind cri-dockerd.
        Docker = "docker",
        /// iSulad.
        Isulad = "isulad",
    }
}

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
}

/// What kubexm knows of a container runtime on hosts.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeProperties {
    /// Whether a real host has run it. Otherwise it is one of [`experimental::CLUSTER`](crate::experimental::CLUSTER).
    pub is_proven: bool,
    /// The components in `manifests/catalog/runtime.yaml` that the bundle must contain.
    pub components: &'static [&'static str],
    /// The address of the CRI socket, as in `unix:///run/…`.
    pub socket: &'static str,
    /// The socket by which preflight finds the runtime on a host.
    pub found_by: &'static str,
    /// The program of packages, which kubexm does not install. A host can have it although the runtime does not run.
    pub packaged: &'static str,
    /// The unit that serves the CRI socket. The kubelet starts after it.
    pub unit: &'static str,
    /// Units that it needs.
    pub other_units: &'static [&'static str],
    /// The file that states the sandbox image.
    pub sandbox_file: &'static str,
    /// The main configuration file, which has the settings of the user.
    pub config: &'static str,
    /// The directory in which the runtime looks for the CAs and mirrors of registries.
    pub certs_d: &'static str,
    /// Directories and files that the runtime creates outside of the data directory. A reset removes them.
    pub directories: &'static [&'static str],
    /// The setting of the directory of images and containers, as a path of field names in `config`.
    pub data_setting: &'static [&'static str],
    /// That directory by default.
    pub data_directory: &'static str,
    /// Settings in `config` that another field of the cluster file decides, or without whose value pods do not start.
    pub own_settings: &'static [OwnSetting],
}

/// A setting of a runtime that kubexm decides: the path of field names, and what the user sets instead.
pub type OwnSetting = (&'static [&'static str], &'static str);

const MIRRORS: &str =
    "use containerRuntime.registries, as in {docker.io: {mirrors: [harbor.corp]}}";
const LOGINS: &str =
    "use containerRuntime.registries, as in {harbor.corp: {username: a, passwordFile: p}}";
const INSECURE: &str = "use containerRuntime.registries, as in {harbor.corp: {insecure: true}}";
const REMOVE: &str = "remove the setting: pods do not start with another value";

const CONTAINERD: RuntimeProperties = RuntimeProperties {
    is_proven: true,
    components: &["containerd", "runc", "cni-plugins", "crictl"],
    socket: "unix:///run/containerd/containerd.sock",
    found_by: "/run/containerd/containerd.sock",
    packaged: "/usr/bin/containerd",
    unit: "containerd.service",
    other_units: &[],
    sandbox_file: "/etc/containerd/config.toml",
    config: "/etc/containerd/config.toml",
    certs_d: "/etc/containerd/certs.d",
    directories: &["/opt/containerd", "/etc/containerd", "/run/containerd"],
    data_setting: &["root"],
    data_directory: "/var/lib/containerd",
    // containerd 2 has other names of its plugins than containerd 1. With `config_path`, which kubexm sets, it refuses
    // `mirrors` and `configs` (https://github.com/containerd/containerd/blob/main/docs/cri/registry.md).
    own_settings: &[
        (&["grpc", "address"], REMOVE),
        (&["plugins", IMAGES, "registry", "mirrors"], MIRRORS),
        (&["plugins", IMAGES, "registry", "configs"], LOGINS),
        (&["plugins", IMAGES, "registry", "config_path"], MIRRORS),
        (&["plugins", CRI, "registry", "mirrors"], MIRRORS),
        (&["plugins", CRI, "registry", "configs"], LOGINS),
        (&["plugins", CRI, "registry", "config_path"], MIRRORS),
        (&["plugins", TRANSFER, "config_path"], MIRRORS),
    ],
};

/// Plugins of containerd 2, and that of containerd 1.
const IMAGES: &str = "io.containerd.cri.v1.images";
const PODS: &str = "io.containerd.cri.v1.runtime";
const TRANSFER: &str = "io.containerd.transfer.v1.local";
const CRI: &str = "io.containerd.grpc.v1.cri";

const CRI_O: RuntimeProperties = RuntimeProperties {
    is_proven: true,
    components: &["cri-o", "cni-plugins", "crictl"],
    socket: "unix:///run/crio/crio.sock",
    found_by: "/run/crio/crio.sock",
    packaged: "/usr/bin/crio",
    unit: "crio.service",
    other_units: &[],
    sandbox_file: "/etc/crio/crio.conf.d/*.conf",
    config: "/etc/crio/crio.conf.d/10-kubexm.conf",
    // CRI-O's library has no setting for this directory.
    certs_d: "/etc/containers/certs.d",
    // Of CRI-O, its library and its programs.
    directories: &[
        "/etc/containers",
        "/etc/crio",
        "/run/containers",
        "/run/conmon",
        "/run/crio",
        "/run/crun",
        "/run/runc",
        "/run/ipcns",
        "/run/pidns",
        "/run/userns",
        "/run/utsns",
        // CRI-O creates its default directory of hooks.
        "/usr/share/containers",
        "/var/lib/containers",
        "/var/lib/crio",
        "/var/log/crio",
    ],
    data_setting: &["crio", "root"],
    data_directory: "/var/lib/containers/storage",
    own_settings: &[
        (&["crio", "api", "listen"], REMOVE),
        (&["crio", "image", "insecure_registries"], INSECURE),
        (&["crio", "image", "registries"], MIRRORS),
        (&["crio", "image", "global_auth_file"], LOGINS),
    ],
};

const DOCKER: RuntimeProperties = RuntimeProperties {
    is_proven: true,
    components: &["docker", "cri-dockerd", "cni-plugins", "crictl"],
    socket: "unix:///run/cri-dockerd.sock",
    found_by: "/run/docker.sock",
    packaged: "/usr/bin/dockerd",
    unit: "cri-dockerd.service",
    other_units: &["docker.service"],
    sandbox_file: "/etc/systemd/system/cri-dockerd.service",
    config: "/etc/docker/daemon.json",
    // Docker has no setting for this directory.
    certs_d: "/etc/docker/certs.d",
    // Of Docker, its containerd and cri-dockerd.
    directories: &[
        "/etc/docker",
        "/opt/containerd",
        "/run/containerd",
        "/run/docker",
        "/run/docker.pid",
        "/run/docker.sock",
        "/run/cri-dockerd.sock",
        "/var/lib/cri-dockerd",
    ],
    data_setting: &["data-root"],
    data_directory: "/var/lib/docker",
    own_settings: &[
        (&["registry-mirrors"], MIRRORS),
        (&["insecure-registries"], INSECURE),
    ],
};

const ISULAD: RuntimeProperties = RuntimeProperties {
    is_proven: false,
    components: &["cni-plugins", "crictl"],
    socket: "unix:///run/isulad.sock",
    found_by: "/run/isulad.sock",
    packaged: "/usr/bin/isulad",
    unit: "isulad.service",
    other_units: &[],
    sandbox_file: "/etc/isulad/daemon.json",
    config: "/etc/isulad/daemon.json",
    // iSulad has no setting for this directory.
    certs_d: "/etc/isulad/certs.d",
    directories: &[
        "/etc/isulad",
        "/run/isulad",
        "/run/isulad.pid",
        "/run/isulad.sock",
        "/var/lib/isula",
    ],
    data_setting: &["graph"],
    data_directory: "/var/lib/isulad",
    own_settings: &[
        (&["data-root"], "use graph, which iSulad reads"),
        (&["hosts"], REMOVE),
        (&["insecure-registries"], INSECURE),
        (
            &["native.cgroupdriver"],
            "use containerRuntime.cgroupDriver",
        ),
        (&["network-plugin"], REMOVE),
        (
            &["registry-mirrors"],
            "remove the setting: kubexm does not configure mirrors of iSulad",
        ),
    ],
};

impl RuntimeKind {
    /// Returns what kubexm knows of the runtime.
    pub const fn properties(self) -> &'static RuntimeProperties {
        match self {
            Self::Containerd => &CONTAINERD,
            Self::CriO => &CRI_O,
            Self::Docker => &DOCKER,
            Self::Isulad => &ISULAD,
        }
    }

    /// Returns the runtime that serves a CRI socket; `None` if kubexm does not know it.
    pub fn by_socket(socket: &str) -> Option<Self> {
        let file = |socket: &str| socket.rsplit('/').next().map(str::to_owned);
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| file(kind.properties().socket) == file(socket))
    }
}

impl RuntimeProperties {
    /// Returns the names of all units, in the order of their start.
    pub fn units(&self) -> Vec<&'static str> {
        let all = self.other_units.iter().copied();
        all.chain([self.unit]).collect()
    }
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
