//! iSulad, which comes as a package of the distribution (openEuler's `iSulad`).
//!
//! It asks each registry by its own name and knows mirrors for names without a registry only, so a node
//! gets every image of the bundle from the local registry and gives it its true name.

use std::sync::Arc;

use askama::Template;

use super::{CNI_BIN, Holds, ImageScripts, Runtime, cri, setting};
use crate::{DeployError, Inputs, os, runtime};
use kubexm_config::cluster;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, OwnFolders, RunScript, WriteFile};
use kubexm_render::{filters, merge};
use kubexm_scripts::runtime as scripts;
use kubexm_types::HostPath;

const CONFIG: &str = "/etc/isulad/daemon.json";
/// iSulad has no setting for this folder.
const CERTS_D: &str = "/etc/isulad/certs.d";
const UNIT: &str = "isulad.service";
const SOCKET: &str = "unix:///run/isulad.sock";

/// What iSulad makes outside of the data folder.
const FOLDERS: [&str; 5] = [
    "/etc/isulad",
    "/run/isulad",
    "/run/isulad.pid",
    "/run/isulad.sock",
    "/var/lib/isula",
];

/// iSulad.
pub(super) struct Isulad;

impl Runtime for Isulad {
    fn components(&self) -> &'static [&'static str] {
        &["cni-plugins", "crictl"]
    }

    fn socket(&self) -> &'static str {
        SOCKET
    }

    fn unit(&self) -> &'static str {
        UNIT
    }

    fn data_dir<'a>(&self, settings: &'a cluster::Runtime) -> &'a str {
        setting(settings, &["graph"], "/var/lib/isulad")
    }

    fn refuses(&self, cluster: &Cluster) -> Option<&'static str> {
        let refusal = "containerRuntime.type is isulad, which knows images by the names of kubexm's own \
                       registry, and registry.type is external: leave registry.type out, or take another \
                       runtime";
        cluster.registry.external.as_ref().map(|_| refusal)
    }

    fn install(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
        let what = "iSulad configuration";
        let data_dir = self.data_dir(&inputs.cluster.runtime);
        let payloads = cri::payloads(inputs, host)?;
        let folders = [&FOLDERS, &cri::FOLDERS[..], &[data_dir]].concat();
        let daemon = Daemon {
            graph: data_dir.to_owned(),
            socket: SOCKET.to_owned(),
            sandbox_image: cri::sandbox_image(inputs),
            cni_bin: CNI_BIN.to_owned(),
        };
        let settings = &inputs.cluster.runtime.extra_config;
        let config = merge::json(what, kubexm_render::text(what, &daemon)?, settings)?;
        let service = Service {
            reachable: cri::reachable(inputs),
        };
        let (path, unit) = (HostPath::parse(CONFIG)?, cri::unit_file(UNIT)?);
        let task = runtime::INSTALL
            .task(&host.name)
            .after([os::PREPARE.id(&host.name)])
            .step(OwnFolders::new(
                "isulad-folders",
                "iSulad's folders",
                &folders,
            )?)
            .step(RunScript::new(
                "isulad package",
                "See that iSulad is installed",
                scripts::ISULAD_INSTALLED.verb("check"),
                scripts::ISULAD_INSTALLED.verb("explain"),
            ))
            .step(InstallFiles {
                title: "crictl and CNI plugins".to_owned(),
                payloads,
                blobs: Arc::clone(&inputs.blobs),
            })
            .step(cri::crictl_config(SOCKET)?);
        Ok(cri::registry_ca(task, inputs, CERTS_D)?
            .step(WriteFile::new(path.clone(), config))
            .step(WriteFile::new(
                unit.clone(),
                kubexm_render::text("isulad unit", &service)?,
            ))
            .step(ManageUnit {
                name: UNIT.to_owned(),
                files: vec![path, unit],
                start: true,
            })
            .step(cri::answers("iSulad", UNIT)))
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: scripts::CRI_IMAGES.verb("present"),
            pull: scripts::ISULAD_PULL,
        }
    }

    fn holds(&self) -> Holds {
        Holds::Everything
    }
}

/// `/etc/isulad/daemon.json`, by the fields of
/// <https://gitee.com/openeuler/lcr/blob/master/src/json/schema/isulad-daemon-configs.json>.
#[derive(Template)]
#[template(path = "isulad/daemon.json", escape = "none")]
struct Daemon {
    /// Where images and containers are.
    graph: String,
    /// The CRI socket's address.
    socket: String,
    /// kubeadm's pause image.
    sandbox_image: String,
    /// Folder of CNI plugins.
    cni_bin: String,
}

/// `/etc/systemd/system/isulad.service`.
#[derive(Template)]
#[template(path = "isulad/isulad.service")]
struct Service {
    /// What it reaches without a proxy, by commas.
    reachable: String,
}
