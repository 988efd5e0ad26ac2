//! Container runtimes: what kubexm knows of each on hosts. `runtime` of the crate `deploy` installs them.

use crate::named_kinds;
use crate::{Content, Directory};

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

/// What kubexm knows of a container runtime on hosts.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeProperties {
    /// Whether a real host has run it. Otherwise it is experimental.
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
    /// The file that states the sandbox image, as a pattern of a shell.
    pub sandbox_file: &'static str,
    /// The settings in that file that state it.
    pub sandbox_settings: &'static [&'static str],
    /// The main configuration file, which has the settings of the user.
    pub config: &'static str,
    /// The directory in which the runtime looks for the CAs and mirrors of registries.
    pub certs_d: &'static str,
    /// Other files by which it pulls from registries, and which it reads only when it starts.
    pub registry_files: &'static [&'static str],
    /// Its files in a support bundle, as patterns of a shell.
    pub support_files: &'static [&'static str],
    /// Directories and files that the runtime creates outside of the data directory. A reset removes them.
    pub directories: &'static [Directory],
    /// What it creates in the data directory, as in [`Content::patterns`].
    pub data: &'static [&'static str],
    /// The setting of the directory of images and containers, as a path of field names in `config`.
    pub data_setting: &'static [&'static str],
    /// That directory by default.
    pub data_directory: &'static str,
    /// The handlers of runtime classes that its configuration has. Without one, it has no others either.
    pub handlers: &'static [&'static str],
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
const STATE: &str =
    "remove the setting: a reset removes what containers leave in the default directory";
const SANDBOX: &str =
    "remove the setting: the bundle and the registry have the image that kubexm sets";

/// The directories of the CAs of registries, which belong to the user if something else is in them.
const CERTS_D: &[&str] = &["certs.d/*/", "certs.d/"];
/// containerd and Docker have it.
const OPT_CONTAINERD: Content = Content::marked("711", &["bin/", "lib/"]);

const CONTAINERD: RuntimeProperties = RuntimeProperties {
    is_proven: true,
    components: &["containerd", "runc", "cni-plugins", "crictl"],
    socket: "unix:///run/containerd/containerd.sock",
    found_by: "/run/containerd/containerd.sock",
    packaged: "/usr/bin/containerd",
    unit: "containerd.service",
    other_units: &[],
    sandbox_file: "/etc/containerd/config.toml",
    sandbox_settings: &["sandbox", "sandbox_image"],
    config: "/etc/containerd/config.toml",
    certs_d: "/etc/containerd/certs.d",
    registry_files: &[],
    support_files: &[
        "/etc/containerd/config.toml",
        "/etc/containerd/certs.d/*/hosts.toml",
        "/etc/systemd/system/containerd.service",
    ],
    directories: &[
        Directory::new("/opt/containerd", OPT_CONTAINERD),
        Directory::new("/etc/containerd", Content::marked("755", CERTS_D)),
        Directory::volatile("/run/containerd"),
    ],
    data: &["io.containerd.*", "tmpmounts"],
    data_setting: &["root"],
    data_directory: "/var/lib/containerd",
    handlers: &["runc"],
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
        (&["plugins", IMAGES, "pinned_images", "sandbox"], SANDBOX),
        (&["plugins", CRI, "sandbox_image"], SANDBOX),
    ],
};

/// Plugins of containerd 2, and that of containerd 1.
const IMAGES: &str = "io.containerd.cri.v1.images";
pub const PODS: &str = "io.containerd.cri.v1.runtime";
const TRANSFER: &str = "io.containerd.transfer.v1.local";
pub const CRI: &str = "io.containerd.grpc.v1.cri";

const CRI_O: RuntimeProperties = RuntimeProperties {
    is_proven: true,
    components: &["cri-o", "cni-plugins", "crictl"],
    socket: "unix:///run/crio/crio.sock",
    found_by: "/run/crio/crio.sock",
    packaged: "/usr/bin/crio",
    unit: "crio.service",
    other_units: &[],
    sandbox_file: "/etc/crio/crio.conf.d/*.conf",
    sandbox_settings: &["pause_image"],
    config: "/etc/crio/crio.conf.d/10-kubexm.conf",
    // CRI-O's library has no setting for this directory.
    certs_d: "/etc/containers/certs.d",
    registry_files: &[
        "/etc/containers/registries.conf.d/",
        "/etc/crio/logins.json",
        "/etc/crio/policy.json",
    ],
    support_files: &[
        "/etc/crio/crio.conf",
        "/etc/crio/crio.conf.d/*",
        "/etc/systemd/system/crio.service",
    ],
    // Of CRI-O, its library and its programs.
    directories: &[
        Directory::new(
            "/etc/containers",
            Content::marked("755", &["certs.d/*/", "certs.d/", "registries.conf.d/"]),
        ),
        // CRI-O creates `policies` and `auth` for image policies and logins of namespaces, which belong to the user.
        Directory::new(
            "/etc/crio",
            Content::marked(
                "755",
                &["crio.conf.d/", "policies/", "auth/in-use/", "auth/"],
            ),
        ),
        Directory::volatile("/run/containers"),
        Directory::volatile("/run/conmon"),
        Directory::volatile("/run/crio"),
        // Other programs keep the state of their containers in these two, too.
        Directory::file("/run/crun"),
        Directory::file("/run/runc"),
        Directory::volatile("/run/ipcns"),
        Directory::volatile("/run/pidns"),
        Directory::volatile("/run/userns"),
        Directory::volatile("/run/utsns"),
        // CRI-O creates its default directory of hooks.
        Directory::new(
            "/usr/share/containers",
            Content::unmarked(&["oci/hooks.d/", "oci/"]),
        ),
        Directory::new(
            "/var/lib/containers",
            Content::marked("755", &["cache", "sigstore", "storage/"]),
        ),
        Directory::new(
            "/var/lib/crio",
            Content::marked(
                "755",
                &["clean.shutdown", "clean.shutdown.supported", "version"],
            ),
        ),
        Directory::new(
            "/var/log/crio",
            Content::marked("755", &["crio.log", "pods"]),
        ),
    ],
    data: &[
        "artifacts/blobs",
        "artifacts/index.json",
        "artifacts/index.lock",
        "artifacts/oci-layout",
        "artifacts/",
        "defaultNetworkBackend",
        "libpod",
        "mounts",
        "networks",
        "overlay",
        "overlay-containers",
        "overlay-images",
        "overlay-layers",
        "secrets",
        "storage.lock",
        "userns.lock",
        "vfs",
        "vfs-containers",
        "vfs-images",
        "vfs-layers",
    ],
    data_setting: &["crio", "root"],
    data_directory: "/var/lib/containers/storage",
    handlers: &["crun", "runc"],
    own_settings: &[
        (&["crio", "api", "listen"], REMOVE),
        (&["crio", "runroot"], STATE),
        (&["crio", "image", "insecure_registries"], INSECURE),
        (&["crio", "image", "registries"], MIRRORS),
        (&["crio", "image", "global_auth_file"], LOGINS),
        (&["crio", "image", "pause_image"], SANDBOX),
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
    sandbox_settings: &["pod-infra-container-image"],
    config: "/etc/docker/daemon.json",
    // Docker has no setting for this directory.
    certs_d: "/etc/docker/certs.d",
    registry_files: &[],
    support_files: &["/etc/docker/daemon.json"],
    // Of Docker, its containerd and cri-dockerd.
    directories: &[
        Directory::new(
            "/etc/docker",
            Content::marked("755", &["certs.d/*/", "certs.d/", "key.json"]),
        ),
        Directory::new("/opt/containerd", OPT_CONTAINERD),
        Directory::volatile("/run/containerd"),
        Directory::volatile("/run/docker"),
        Directory::volatile("/run/docker.pid"),
        Directory::volatile("/run/docker.sock"),
        Directory::volatile("/run/cri-dockerd.sock"),
        Directory::new("/var/lib/cri-dockerd", Content::marked("755", &["sandbox"])),
    ],
    data: &[
        "buildkit",
        "containerd",
        "containers",
        "engine-id",
        "image",
        "network",
        "nuke-graph-directory.sh",
        "overlay2",
        "plugins",
        "rootfs",
        "runtimes",
        "swarm",
        "trust",
        "volumes",
    ],
    data_setting: &["data-root"],
    data_directory: "/var/lib/docker",
    handlers: &[],
    own_settings: &[
        (&["registry-mirrors"], MIRRORS),
        (&["insecure-registries"], INSECURE),
        (&["exec-root"], STATE),
        (
            &["hosts"],
            "remove the setting: dockerd does not start with it, because its unit names the socket",
        ),
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
    sandbox_settings: &["pod-sandbox-image"],
    config: "/etc/isulad/daemon.json",
    // iSulad has no setting for this directory.
    certs_d: "/etc/isulad/certs.d",
    registry_files: &[],
    support_files: &["/etc/isulad/daemon.json"],
    directories: &[
        Directory::new("/etc/isulad", Content::marked("755", CERTS_D)),
        Directory::volatile("/run/isulad"),
        Directory::volatile("/run/isulad.pid"),
        Directory::volatile("/run/isulad.sock"),
        Directory::new(
            "/var/lib/isula",
            Content::marked("755", &["volumes", "mnt"]),
        ),
    ],
    data: &["engines", "isulad_tmpdir", "lcr", "mnt", "storage"],
    data_setting: &["graph"],
    data_directory: "/var/lib/isulad",
    handlers: &[],
    own_settings: &[
        (&["data-root"], "use graph, which iSulad reads"),
        (&["hosts"], REMOVE),
        (&["state"], STATE),
        (&["insecure-registries"], INSECURE),
        (
            &["native.cgroupdriver"],
            "use containerRuntime.cgroupDriver",
        ),
        (&["network-plugin"], REMOVE),
        (&["pod-sandbox-image"], SANDBOX),
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

    /// Returns what kubexm knows of all runtimes.
    pub fn all_properties() -> impl Iterator<Item = &'static RuntimeProperties> {
        Self::ALL.iter().map(|kind| kind.properties())
    }

    /// Returns the runtime that serves a CRI socket; `None` if kubexm does not know it.
    pub fn by_socket(socket: &str) -> Option<Self> {
        let file = |socket: &str| socket.rsplit('/').next().map(str::to_owned);
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| file(kind.properties().socket) == file(socket))
    }
}

impl RuntimeProperties {
    /// Returns the paths of its directories and files.
    pub fn paths(&self) -> Vec<&'static str> {
        self.directories.iter().map(|one| one.path).collect()
    }

    /// Returns the names of all units, in the order of their start.
    pub fn units(&self) -> Vec<&'static str> {
        let all = self.other_units.iter().copied();
        all.chain([self.unit]).collect()
    }
}
