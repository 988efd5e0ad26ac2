//! Docker Engine with cri-dockerd, which implements the CRI for it.
//!
//! Docker reads mirrors from `certs.d/<registry>/hosts.toml` like containerd, provided that containerd stores
//! its images (`features.containerd-snapshotter`).

use std::sync::Arc;

use super::{CNI_BIN, ImageScripts, Runtime, cri, setting};
use crate::{BIN, DeployError, Inputs, members, os, runtime};
use kubexm_config::cluster;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, TrackNewDirs, WriteFile};
use kubexm_render::{docker, merge};
use kubexm_scripts::runtime as scripts;
use kubexm_types::{HostPath, Version};

const CONFIG: &str = "/etc/docker/daemon.json";
/// Docker has no setting for this directory.
const CERTS_D: &str = "/etc/docker/certs.d";
const UNIT: &str = "docker.service";
const DOCKER_SOCKET: &str = "unix:///run/docker.sock";
const CRI_UNIT: &str = "cri-dockerd.service";
const CRI_SOCKET: &str = "unix:///run/cri-dockerd.sock";
const CRI_ROOT: &str = "/var/lib/cri-dockerd";

/// Directories and files that Docker, its containerd and cri-dockerd create outside of the data directory.
const DIRS: [&str; 8] = [
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

    fn units(&self) -> Vec<&'static str> {
        vec![UNIT, CRI_UNIT]
    }

    fn data_dir<'a>(&self, settings: &'a cluster::Runtime) -> &'a str {
        setting(settings, &["data-root"], "/var/lib/docker")
    }

    /// Since 1.36 the kubelet translates the streams of exec, attach and port-forward itself. It assumes TLS
    /// for an address without a scheme, and cri-dockerd returns such an address.
    fn kubelet_gates(&self, kubernetes: &Version) -> &'static [(&'static str, bool)] {
        if *kubernetes < Version::new(1, 36, 0) {
            &[]
        } else {
            &[("ExtendWebSocketsToKubelet", false)]
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
        let dirs = [&DIRS, &cri::DIRS[..], &[data_dir]].concat();
        let task = runtime::INSTALL
            .task(&host.name)
            .after([os::PREPARE.id(&host.name)])
            .step(TrackNewDirs::new(
                "docker-folders",
                "Docker's directories",
                &dirs,
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

    fn clients(&self, inputs: &Inputs<'_>, task: Task) -> Result<Option<Task>, DeployError> {
        cri::mirrors(task, inputs, CERTS_D).map(Some)
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
    let daemon = docker::Daemon {
        cgroup_driver: inputs.cluster.runtime.cgroup_driver.name(),
        data_root: data_dir.to_owned(),
    };
    let settings = &inputs.cluster.runtime.extra_config;
    let config = merge::json(what, kubexm_render::text(what, &daemon)?, settings)?;
    let service = docker::Service {
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
            reload: None,
            start: true,
        }))
}

fn start_cri(
    task: Task,
    inputs: &Inputs<'_>,
    mut files: Vec<HostPath>,
) -> Result<Task, DeployError> {
    let service = docker::CriDockerd {
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
            reload: None,
            start: true,
        })
        .step(cri::wait_until_ready("cri-dockerd", CRI_UNIT)))
}
