//! Docker's configuration, and the units of Docker and cri-dockerd.

use askama::Template;

use super::filters;

/// `/etc/docker/daemon.json` (<https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file>).
///
/// Pods get their network from CNI, so Docker creates no bridge and no rules. The limits of logs are those
/// that the kubelet applies to other runtimes. No group has access to Docker's socket, because access to it
/// gives the rights of root.
#[derive(Template)]
#[template(path = "docker/daemon.json", escape = "none")]
pub struct Daemon {
    /// `systemd` or `cgroupfs`.
    pub cgroup_driver: &'static str,
    /// The directory of images and containers.
    pub data_root: String,
}

/// `/etc/systemd/system/docker.service`.
#[derive(Template)]
#[template(path = "docker/docker.service")]
pub struct Service {
    /// Path of dockerd.
    pub binary: String,
    /// Path of the configuration file.
    pub config: String,
}

/// `/etc/systemd/system/cri-dockerd.service`.
#[derive(Template)]
#[template(path = "docker/cri-dockerd.service")]
pub struct CriDockerd {
    /// Path of cri-dockerd.
    pub binary: String,
    /// Address of the CRI socket that cri-dockerd creates.
    pub socket: String,
    /// Address of Docker's socket.
    pub docker_socket: String,
    /// The directory of cri-dockerd's state.
    pub root: String,
    /// The pause image that kubeadm expects.
    pub sandbox_image: String,
    /// The directory of CNI plugins.
    pub cni_bin: String,
}
