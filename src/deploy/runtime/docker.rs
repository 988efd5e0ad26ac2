//! Docker Engine with cri-dockerd, which makes of it what the kubelet can talk to.
//!
//! Docker looks for mirrors of registries where containerd does, in `certs.d/<registry>/hosts.toml`, as
//! long as containerd keeps its images (`features.containerd-snapshotter`).

use std::sync::Arc;

use askama::Template;

use super::{CNI_BIN, ImageScripts, Runtime, cri, setting};
use crate::{BIN, DeployError, Inputs, members, os, runtime};
use kubexm_config::cluster;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, OwnFolders, WriteFile};
use kubexm_render::{filters, merge};
use kubexm_scripts::runtime as scripts;
use kubexm_types::{HostPath, Version};

const CONFIG: &str = "/etc/docker/daemon.json";
/// Docker has no setting for this folder.
const CERTS_D: &str = "/etc/docker/certs.d";
const UNIT: &str = "docker.service";
const DOCKER_SOCKET: &str = "unix:///run/docker.sock";
const CRI_UNIT: &str = "cri-dockerd.service";
const CRI_SOCKET: &str = "unix:///run/cri-dockerd.sock";
const CRI_ROOT: &str = "/var/lib/cri-dockerd";

/// What Docker, its containerd and cri-dockerd make outside of the data folder.
const FOLDERS: [&str; 8] = [
    "/etc/docker",
    "/opt/containerd",
    "/run/containerd",
    "/run/docker",
    "/run/docker.pid",
    "/run/docker.sock",
    "/run/cri-dockerd.sock",
    CRI_ROOT,
];

/// Docker Engine with cri-dockerd.
pub(super) struct Docker;

impl Runtime for Docker {
    fn components(&self) -> &'static [&'static str] {
        &["docker", "cri-dockerd", "cni-plugins", "crictl"]
    }

    fn socket(&self) -> &'static str {
        CRI_SOCKET
    }

    fn unit(&self) -> &'static str {
        CRI_UNIT
    }

    fn data_dir<'a>(&self, settings: &'a cluster::Runtime) -> &'a str {
        setting(settings, &["data-root"], "/var/lib/docker")
    }

    /// From 1.36 on kubelets turn streams of exec, attach and port-forward around by themselves, and take
    /// an address without a scheme, which is what cri-dockerd gives, for one of TLS.
    fn kubelet_gates(&self, kubernetes: &Version) -> &'static [(&'static str, bool)] {
        match *kubernetes < Version::new(1, 36, 0) {
            true => &[],
            false => &[("ExtendWebSocketsToKubelet", false)],
        }
    }

    fn install(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
        let engine = inputs.file("docker", &host.name)?;
        let data_dir = self.data_dir(&inputs.cluster.runtime);
        let mut payloads = members(engine, BIN, |_| true)?;
        payloads.extend(cri::payloads(inputs, host)?);
        let shim = members(inputs.file("cri-dockerd", &host.name)?, BIN, |_| true)?;
        let files = cri::restart_for(&payloads);
        let shim_files = cri::restart_for(&shim);
        payloads.extend(shim);
        let folders = [&FOLDERS, &cri::FOLDERS[..], &[data_dir]].concat();
        let task = runtime::INSTALL
            .task(&host.name)
            .after([os::PREPARE.id(&host.name)])
            .step(OwnFolders::new(
                "docker-folders",
                "Docker's folders",
                &folders,
            )?)
            .step(InstallFiles {
                title: format!("Docker {}", engine.version),
                payloads,
                blobs: Arc::clone(&inputs.blobs),
            })
            .step(cri::crictl_config(CRI_SOCKET)?);
        let task = cri::mirrors(task, inputs, CERTS_D)?;
        let task = start_engine(task, inputs, data_dir, files)?;
        start_cri(task, inputs, shim_files)
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: scripts::CRI_IMAGES.verb("present"),
            pull: scripts::CRI_IMAGES.verb("pull"),
        }
    }
}

fn start_engine(
    task: Task,
    inputs: &Inputs<'_>,
    data_dir: &str,
    mut files: Vec<HostPath>,
) -> Result<Task, DeployError> {
    let what = "Docker configuration";
    let daemon = Daemon {
        data_root: data_dir.to_owned(),
    };
    let settings = &inputs.cluster.runtime.extra_config;
    let config = merge::json(what, kubexm_render::text(what, &daemon)?, settings)?;
    let service = Service {
        binary: format!("{BIN}/dockerd"),
        config: CONFIG.to_owned(),
    };
    let (path, unit) = (HostPath::parse(CONFIG)?, cri::unit_file(UNIT)?);
    files.extend([path.clone(), unit.clone()]);
    Ok(task
        .step(WriteFile::new(path, config))
        .step(WriteFile::new(
            unit,
            kubexm_render::text("docker unit", &service)?,
        ))
        .step(ManageUnit {
            name: UNIT.to_owned(),
            files,
            start: true,
        }))
}

fn start_cri(
    task: Task,
    inputs: &Inputs<'_>,
    mut files: Vec<HostPath>,
) -> Result<Task, DeployError> {
    let service = CriDockerd {
        binary: format!("{BIN}/cri-dockerd"),
        socket: CRI_SOCKET.to_owned(),
        docker_socket: DOCKER_SOCKET.to_owned(),
        root: CRI_ROOT.to_owned(),
        sandbox_image: cri::sandbox_image(inputs),
        cni_bin: CNI_BIN.to_owned(),
    };
    let unit = cri::unit_file(CRI_UNIT)?;
    files.push(unit.clone());
    Ok(task
        .step(WriteFile::new(
            unit,
            kubexm_render::text("cri-dockerd unit", &service)?,
        ))
        .step(ManageUnit {
            name: CRI_UNIT.to_owned(),
            files,
            start: true,
        })
        .step(cri::answers("cri-dockerd", CRI_UNIT)))
}

/// `/etc/docker/daemon.json`: pods get their network from CNI, so Docker makes no bridge and no rules;
/// logs are kept as the kubelet keeps those of other runtimes; no group gets the rights of root by
/// Docker's socket (<https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file>).
#[derive(Template)]
#[template(path = "docker/daemon.json", escape = "none")]
struct Daemon {
    /// Where images and containers are.
    data_root: String,
}

/// `/etc/systemd/system/docker.service`.
#[derive(Template)]
#[template(path = "docker/docker.service")]
struct Service {
    /// dockerd.
    binary: String,
    /// Its configuration file.
    config: String,
}

/// `/etc/systemd/system/cri-dockerd.service`.
#[derive(Template)]
#[template(path = "docker/cri-dockerd.service")]
struct CriDockerd {
    /// cri-dockerd.
    binary: String,
    /// Address of the CRI socket that it makes.
    socket: String,
    /// Address of Docker's socket.
    docker_socket: String,
    /// Where it keeps what it knows of pods.
    root: String,
    /// kubeadm's pause image.
    sandbox_image: String,
    /// Folder of CNI plugins.
    cni_bin: String,
}
