//! Docker Engine and cri-dockerd.

use askama::Template;

use super::filters;

/// `/etc/docker/daemon.json`: pods get their network from CNI, so Docker makes no bridge and no rules;
/// logs are kept as the kubelet keeps those of other runtimes; no group gets the rights of root by
/// Docker's socket (<https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file>).
#[derive(Template)]
#[template(path = "docker/daemon.json", escape = "none")]
pub struct Daemon {
    /// Where images and containers are.
    pub data_root: String,
}

/// `/etc/systemd/system/docker.service`.
#[derive(Template)]
#[template(path = "docker/docker.service")]
pub struct Service {
    /// dockerd.
    pub binary: String,
    /// Its configuration file.
    pub config: String,
}

/// `/etc/systemd/system/cri-dockerd.service`.
#[derive(Template)]
#[template(path = "docker/cri-dockerd.service")]
pub struct CriDockerd {
    /// cri-dockerd.
    pub binary: String,
    /// Address of the CRI socket that it makes.
    pub socket: String,
    /// Address of Docker's socket.
    pub docker_socket: String,
    /// Where it keeps what it knows of pods.
    pub root: String,
    /// kubeadm's pause image.
    pub sandbox_image: String,
    /// Folder of CNI plugins.
    pub cni_bin: String,
}
