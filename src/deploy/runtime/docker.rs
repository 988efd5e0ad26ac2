//! Docker Engine with cri-dockerd, which implements the CRI for it.
//!
//! Docker reads mirrors from `certs.d/<registry>/hosts.toml` like containerd, provided that containerd stores
//! its images (`features.containerd-snapshotter`).

use std::sync::Arc;

use super::{CNI_BIN, INSTALL, ImageScripts, Runtime, cri};
use crate::{BIN, DeployError, Inputs, members, os};
use kubexm_config::cluster::{HostSpec, RuntimeKind, RuntimeProperties};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, TrackNewDirs, WriteFile};
use kubexm_render::{docker, merge};
use kubexm_scripts::runtime as scripts;
use kubexm_types::{HostPath, Version};

const OWN: &RuntimeProperties = RuntimeKind::Docker.properties();
const ENGINE: &str = "docker.service";
const CRI_ROOT: &str = "/var/lib/cri-dockerd";

/// Docker Engine with cri-dockerd.
pub(super) struct Docker;

impl Runtime for Docker {
    /// Since 1.36 the kubelet translates the streams of exec, attach and port-forward itself. It assumes TLS
    /// for an address without a scheme, and cri-dockerd returns such an address.
    fn kubelet_gates(&self, kubernetes: &Version) -> &'static [(&'static str, bool)] {
        if *kubernetes < Version::new(1, 36, 0) {
            &[]
        } else {
            &[("ExtendWebSocketsToKubelet", false)]
        }
    }

    fn install(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        _: &[String],
    ) -> Result<Task, DeployError> {
        let engine = inputs.file("docker", &host.name)?;
        let data_dir = inputs.cluster.runtime.data_directory();
        let mut payloads = members(engine, BIN, |_| true)?;
        payloads.extend(cri::payloads(inputs, host)?);
        let shim = members(inputs.file("cri-dockerd", &host.name)?, BIN, |_| true)?;
        let files = cri::restart_for(&payloads);
        let shim_files = cri::restart_for(&shim);
        payloads.extend(shim);
        let dirs = [&OWN.paths()[..], &cri::DIRS[..], &[data_dir]].concat();
        let task = INSTALL
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
            .step(cri::crictl_config(OWN.socket)?);
        let task = cri::mirrors(task, inputs, OWN.certs_d)?;
        let task = start_engine(task, inputs, data_dir, files)?;
        start_cri(task, inputs, shim_files)
    }

    fn clients(&self, inputs: &Inputs<'_>, task: Task) -> Result<Option<Task>, DeployError> {
        cri::mirrors(task, inputs, OWN.certs_d).map(Some)
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
        config: OWN.config.to_owned(),
    };
    let (path, unit) = (HostPath::parse(OWN.config)?, cri::unit_file(ENGINE)?);
    files.extend([path.clone(), unit.clone()]);
    Ok(task
        .step(WriteFile::new(path, config))
        .step(WriteFile::new(
            unit,
            kubexm_render::text("docker unit", &service)?,
        ))
        .step(ManageUnit {
            name: ENGINE.to_owned(),
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
        socket: OWN.socket.to_owned(),
        docker_socket: format!("unix://{}", OWN.found_by),
        root: CRI_ROOT.to_owned(),
        sandbox_image: cri::sandbox_image(inputs),
        cni_bin: CNI_BIN.to_owned(),
    };
    let unit = cri::unit_file(OWN.unit)?;
    files.push(unit.clone());
    Ok(task
        .step(WriteFile::new(
            unit,
            kubexm_render::text("cri-dockerd unit", &service)?,
        ))
        .step(ManageUnit {
            name: OWN.unit.to_owned(),
            files,
            reload: None,
            start: true,
        })
        .step(cri::wait_until_ready("cri-dockerd", OWN.unit)))
}
