//! The container runtime: containerd with runc, and where it finds images.

use std::sync::Arc;

use askama::Template;

use super::{ImageScripts, Runtime, cri, setting};
use crate::{BIN, DeployError, Inputs, binary, members, os, runtime};
use kubexm_config::cluster;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, OwnFolders, WriteFile};
use kubexm_render::{filters, merge};
use kubexm_scripts::runtime::CONTAINERD_IMAGES;
use kubexm_types::HostPath;

const CONFIG: &str = "/etc/containerd/config.toml";
const CERTS_D: &str = "/etc/containerd/certs.d";
const UNIT: &str = "containerd.service";
const RUNC: &str = "/usr/local/bin/runc";
const SOCKET: &str = "unix:///run/containerd/containerd.sock";

/// containerd with runc.
pub(super) struct Containerd;

impl Runtime for Containerd {
    fn components(&self) -> &'static [&'static str] {
        &["containerd", "runc", "cni-plugins", "crictl"]
    }

    fn socket(&self) -> &'static str {
        SOCKET
    }

    fn unit(&self) -> &'static str {
        UNIT
    }

    fn data_dir<'a>(&self, settings: &'a cluster::Runtime) -> &'a str {
        setting(settings, &["root"], "/var/lib/containerd")
    }

    fn install(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
        install(inputs, host)
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: CONTAINERD_IMAGES.verb("check"),
            pull: CONTAINERD_IMAGES.verb("pull"),
        }
    }
}

/// Installs and configures containerd on a node.
fn install(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let name = &host.name;
    let runtime = inputs.file("containerd", name)?;
    let mut payloads = members(runtime, BIN, |_| true)?;
    payloads.push(binary(inputs.file("runc", name)?, RUNC)?);
    payloads.extend(cri::payloads(inputs, host)?);
    let config = HostPath::parse(CONFIG)?;
    let unit = HostPath::parse(&format!("/etc/systemd/system/{UNIT}"))?;
    let service = Service {
        binary: format!("{BIN}/containerd"),
        config: CONFIG.to_owned(),
    };
    let mut restart_for = vec![config.clone(), unit.clone()];
    restart_for.extend(cri::restart_for(&payloads));
    let data_dir = Containerd.data_dir(&inputs.cluster.runtime);
    let folders = [&FOLDERS, &cri::FOLDERS[..], &[data_dir]].concat();
    let task = runtime::INSTALL
        .task(name)
        .after([os::PREPARE.id(name)])
        .step(OwnFolders::new(
            "containerd-folders",
            "containerd's folders",
            &folders,
        )?)
        .step(InstallFiles {
            title: format!("containerd {}", runtime.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(cri::crictl_config(SOCKET)?)
        .step(WriteFile::new(config, config_text(inputs, host)?))
        .step(WriteFile::new(
            unit,
            kubexm_render::text("containerd unit", &service)?,
        ));
    Ok(cri::mirrors(task, inputs, CERTS_D)?
        .step(ManageUnit {
            name: UNIT.to_owned(),
            files: restart_for,
            start: true,
        })
        .step(cri::answers("containerd", UNIT)))
}

/// Where containerd keeps what is not in its data folder.
const FOLDERS: [&str; 3] = ["/opt/containerd", "/etc/containerd", "/run/containerd"];

fn config_text(inputs: &Inputs<'_>, host: &HostSpec) -> Result<String, DeployError> {
    let pause = cri::sandbox_image(inputs);
    let (runc, registry_config_dir) = (RUNC.to_owned(), CERTS_D.to_owned());
    let text = if inputs.file("containerd", &host.name)?.version.major() >= 2 {
        let config = ConfigV3 {
            sandbox_image: pause,
            registry_config_dir,
            runc,
        };
        kubexm_render::text("containerd configuration", &config)?
    } else {
        let config = ConfigV2 {
            sandbox_image: pause,
            registry_config_dir,
            runc,
        };
        kubexm_render::text("containerd configuration", &config)?
    };
    Ok(merge::toml(
        "containerd configuration",
        text,
        &inputs.cluster.runtime.extra_config,
    )?)
}

/// `/etc/containerd/config.toml` for containerd 2.
#[derive(Template)]
#[template(path = "containerd/config-v3.toml")]
struct ConfigV3 {
    /// kubeadm's pause image.
    sandbox_image: String,
    /// `/etc/containerd/certs.d`.
    registry_config_dir: String,
    /// runc.
    runc: String,
}

/// `/etc/containerd/config.toml` for containerd 1.7.
#[derive(Template)]
#[template(path = "containerd/config-v2.toml")]
struct ConfigV2 {
    /// kubeadm's pause image.
    sandbox_image: String,
    /// `/etc/containerd/certs.d`.
    registry_config_dir: String,
    /// runc.
    runc: String,
}

/// `/etc/systemd/system/containerd.service`.
#[derive(Template)]
#[template(path = "containerd/containerd.service")]
struct Service {
    /// The program.
    binary: String,
    /// Its configuration file.
    config: String,
}
