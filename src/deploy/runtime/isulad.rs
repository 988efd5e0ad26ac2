//! iSulad, which is a package of the distribution (openEuler's `iSulad`).
//!
//! iSulad supports mirrors only for image names without a registry. A node therefore pulls every image of
//! the bundle from the local registry in advance, and tags it with its original name.

use std::sync::Arc;

use super::{CNI_BIN, INSTALL, ImageScripts, Login, Preload, Runtime, cri};
use crate::{DeployError, Inputs, os};
use kubexm_config::cluster::{CgroupDriver, Cluster, HostSpec, RuntimeKind, RuntimeProperties};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, RunScript, TrackNewDirs, WriteFile};
use kubexm_render::{isulad, merge};
use kubexm_scripts::runtime as scripts;
use kubexm_types::{HostPath, Message};

const OWN: &RuntimeProperties = RuntimeKind::Isulad.properties();

/// iSulad.
pub(super) struct Isulad;

impl Runtime for Isulad {
    fn incompatibility(&self, cluster: &Cluster) -> Option<Message> {
        let mut registries = cluster.runtime.registries.iter();
        let has_more = registries.any(|one| !one.mirrors.is_empty() || one.login.is_some());
        let (cause, removed) = if cluster.registry.external.is_some() {
            let cause =
                "registry.type external: iSulad pulls images only from a registry that kubexm runs";
            (cause, "registry.type")
        } else if has_more {
            let cause = "mirrors and logins in containerRuntime.registries";
            (cause, "mirrors, username and passwordFile")
        } else {
            return None;
        };
        let text = format!("containerRuntime.type isulad does not work with {cause}");
        let hint = format!("remove {removed}, or choose another containerRuntime.type");
        Some(Message::new(text).hint(hint))
    }

    fn install(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        _: &[String],
    ) -> Result<Task, DeployError> {
        let what = "iSulad configuration";
        let data_dir = inputs.cluster.runtime.data_directory();
        let payloads = cri::payloads(inputs, host)?;
        let dirs = [&OWN.paths()[..], &cri::DIRS[..], &[data_dir]].concat();
        let daemon = isulad::Daemon {
            systemd_cgroup: inputs.cluster.runtime.cgroup_driver == CgroupDriver::Systemd,
            graph: data_dir.to_owned(),
            socket: OWN.socket.to_owned(),
            sandbox_image: cri::sandbox_image(inputs),
            cni_bin: CNI_BIN.to_owned(),
            insecure: {
                let registries = inputs.cluster.runtime.registries.iter();
                let insecure = registries.filter(|one| one.insecure);
                insecure.map(|one| one.name.clone()).collect()
            },
        };
        let settings = &inputs.cluster.runtime.extra_config;
        let config = merge::json(what, kubexm_render::text(what, &daemon)?, settings)?;
        let service = isulad::Service {
            reachable: cri::reachable(inputs),
        };
        let (path, unit) = (HostPath::parse(OWN.config)?, cri::unit_file(OWN.unit)?);
        let task = INSTALL
            .task(&host.name)
            .after([os::PREPARE.id(&host.name)])
            .step(TrackNewDirs::new(
                "isulad-folders",
                "iSulad's directories",
                &dirs,
            )?)
            .step(RunScript::new(
                "isulad package",
                "Check that iSulad is installed",
                scripts::ISULAD_INSTALLED.verb("check"),
                scripts::ISULAD_INSTALLED.verb("explain"),
            ))
            .step(InstallFiles {
                title: "crictl and CNI plugins".to_owned(),
                payloads,
                blobs: Arc::clone(&inputs.blobs),
            })
            .step(cri::crictl_config(OWN.socket)?);
        let task = cri::registry_ca(task, inputs, OWN.certs_d)?;
        Ok(cri::site_cas(task, inputs, OWN.certs_d)?
            .step(WriteFile::new(path.clone(), config))
            .step(WriteFile::new(
                unit.clone(),
                kubexm_render::text("isulad unit", &service)?,
            ))
            .step(ManageUnit {
                name: OWN.unit.to_owned(),
                files: vec![path, unit],
                reload: None,
                start: true,
            })
            .step(cri::wait_until_ready("iSulad", OWN.unit)))
    }

    fn registry_cas(&self) -> Option<&'static str> {
        Some(OWN.certs_d)
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: scripts::CRI_IMAGES.verb("present"),
            pull: scripts::ISULAD_PULL,
        }
    }

    /// iSulad encrypts its file of logins with a key of its own, so only `isula login` can write it.
    fn login(&self) -> Login {
        Login::Input
    }

    fn preload(&self) -> Preload {
        Preload::AllImages
    }
}
