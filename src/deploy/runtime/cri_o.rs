//! CRI-O with crun and conmon, from the bundle that its project builds.

use std::sync::Arc;

use askama::Template;

use super::{CNI_BIN, ImageScripts, Runtime, cri, setting};
use crate::{BIN, DeployError, Inputs, images, members, os, registry, runtime};
use kubexm_bundle::lock::LockedFile;
use kubexm_config::cluster;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, OwnFolders, Payload, WriteFile};
use kubexm_render::{filters, merge};
use kubexm_scripts::Script;
use kubexm_scripts::runtime as scripts;
use kubexm_types::HostPath;

const CONFIG: &str = "/etc/crio/crio.conf.d/10-kubexm.conf";
const POLICY: &str = "/etc/crio/policy.json";
const REGISTRIES: &str = "/etc/containers/registries.conf.d/10-kubexm.conf";
/// CRI-O's library has no setting for this folder.
const CERTS_D: &str = "/etc/containers/certs.d";
const LOGINS: &str = "/etc/crio/logins.json";
/// conmon, crun and runc are for CRI-O alone: a host may have its own for podman.
const LIBEXEC: &str = "/usr/local/libexec/crio";
const UNIT: &str = "crio.service";
const SOCKET: &str = "unix:///run/crio/crio.sock";

/// What CRI-O, its library and its programs make outside of the data folder.
const FOLDERS: [&str; 15] = [
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
    // It makes the folder of hooks that it looks into by default.
    "/usr/share/containers",
    "/var/lib/containers",
    "/var/lib/crio",
    "/var/log/crio",
];

/// CRI-O with crun.
pub(super) struct CriO;

impl Runtime for CriO {
    fn components(&self) -> &'static [&'static str] {
        &["cri-o", "cni-plugins", "crictl"]
    }

    fn socket(&self) -> &'static str {
        SOCKET
    }

    fn unit(&self) -> &'static str {
        UNIT
    }

    fn data_dir<'a>(&self, settings: &'a cluster::Runtime) -> &'a str {
        setting(settings, &["crio", "root"], "/var/lib/containers/storage")
    }

    fn install(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
        let file = inputs.file("cri-o", &host.name)?;
        let data_dir = self.data_dir(&inputs.cluster.runtime);
        let mut payloads = programs(file)?;
        payloads.extend(cri::payloads(inputs, host)?);
        let mut restart_for = cri::restart_for(&payloads);
        let folders = [&FOLDERS, &cri::FOLDERS[..], &[data_dir]].concat();
        let mut task = runtime::INSTALL
            .task(&host.name)
            .after([os::PREPARE.id(&host.name)])
            .step(OwnFolders::new(
                "crio-folders",
                "CRI-O's folders",
                &folders,
            )?)
            .step(InstallFiles {
                title: format!("CRI-O {}", file.version),
                payloads,
                blobs: Arc::clone(&inputs.blobs),
            })
            .step(cri::crictl_config(SOCKET)?);
        task = cri::registry_ca(task, inputs, CERTS_D)?;
        let logins = logins(inputs)?;
        let has_logins = logins.is_some();
        if let Some(logins) = logins {
            task = task.step(WriteFile::secret(HostPath::parse(LOGINS)?, logins));
        }
        for (path, text) in files(inputs, host, data_dir, has_logins)? {
            let path = HostPath::parse(path)?;
            restart_for.push(path.clone());
            task = task.step(WriteFile::new(path, text));
        }
        let service = Service {
            binary: format!("{BIN}/crio"),
            reachable: cri::reachable(inputs),
        };
        let unit = cri::unit_file(UNIT)?;
        restart_for.push(unit.clone());
        Ok(task
            .step(WriteFile::new(
                unit,
                kubexm_render::text("crio unit", &service)?,
            ))
            .step(ManageUnit {
                name: UNIT.to_owned(),
                files: restart_for,
                start: true,
            })
            .step(cri::answers("CRI-O", UNIT)))
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: scripts::CRI_IMAGES.verb("pinned"),
            pull: scripts::CRI_IMAGES.verb("pull"),
        }
    }

    fn after_pods(&self) -> Option<Script> {
        Some(scripts::STOP_CRIO_SCOPES)
    }
}

/// How CRI-O logs in to registries that want it
/// (<https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md>). Secret.
fn logins(inputs: &Inputs<'_>) -> Result<Option<String>, DeployError> {
    let authorization = registry::authorization(inputs)?;
    let Some(login) = authorization
        .as_deref()
        .and_then(|a| a.strip_prefix("Basic "))
    else {
        return Ok(None);
    };
    let endpoints = registry::endpoints(inputs).into_iter();
    let text = kubexm_render::text(
        "CRI-O logins",
        &Logins {
            registries: endpoints.collect(),
            login: login.to_owned(),
        },
    )?;
    Ok(Some(text))
}

/// crio and pinns where programs are, the others out of everybody's way.
fn programs(file: &LockedFile) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = members(file, BIN, |name| matches!(name, "crio" | "pinns"))?;
    payloads.extend(members(file, LIBEXEC, |name| {
        matches!(name, "crun" | "runc" | "conmon")
    })?);
    Ok(payloads)
}

/// The files that CRI-O reads when it starts.
fn files(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    data_dir: &str,
    has_logins: bool,
) -> Result<[(&'static str, String); 3], DeployError> {
    let what = "CRI-O configuration";
    let config = Config {
        root: data_dir.to_owned(),
        socket: SOCKET.trim_start_matches("unix://").to_owned(),
        pinns: format!("{BIN}/pinns"),
        crun: format!("{LIBEXEC}/crun"),
        runc: format!("{LIBEXEC}/runc"),
        conmon: format!("{LIBEXEC}/conmon"),
        sandbox_image: cri::sandbox_image(inputs),
        pinned_images: images::of_node(inputs, host),
        policy: POLICY.to_owned(),
        cni_bin: CNI_BIN.to_owned(),
        logins: has_logins.then(|| LOGINS.to_owned()),
    };
    let settings = &inputs.cluster.runtime.extra_config;
    let config = merge::toml(what, kubexm_render::text(what, &config)?, settings)?;
    let mirrors = registry::mirrors(inputs).into_iter();
    let moved: Vec<Moved> = mirrors
        .filter_map(|mirror| {
            let mut locations = mirror.locations();
            Some(Moved {
                prefix: mirror.source?,
                location: locations.pop()?,
                before: locations,
            })
        })
        .collect();
    let policy = Policy {
        registries: moved.iter().map(|moved| moved.prefix.clone()).collect(),
    };
    let registries = Registries { registries: moved };
    Ok([
        (CONFIG, config),
        (POLICY, kubexm_render::text("CRI-O policy", &policy)?),
        (
            REGISTRIES,
            kubexm_render::text("CRI-O registries", &registries)?,
        ),
    ])
}

/// `/etc/crio/crio.conf.d/10-kubexm.conf`.
#[derive(Template)]
#[template(path = "crio/10-kubexm.conf", escape = "none")]
struct Config {
    /// Where images and containers are.
    root: String,
    /// Path of the CRI socket.
    socket: String,
    /// The program that makes namespaces.
    pinns: String,
    /// The OCI runtime.
    crun: String,
    /// Another one, for those who ask for it.
    runc: String,
    /// What watches over a container.
    conmon: String,
    /// kubeadm's pause image.
    sandbox_image: String,
    /// Images that the kubelet's garbage collection spares.
    pinned_images: Vec<String>,
    /// Which images may run.
    policy: String,
    /// Folder of CNI plugins.
    cni_bin: String,
    /// File of logins.
    logins: Option<String>,
}

/// `/etc/systemd/system/crio.service`.
#[derive(Template)]
#[template(path = "crio/crio.service")]
struct Service {
    /// The program.
    binary: String,
    /// What it reaches without a proxy, by commas.
    reachable: String,
}

/// `/etc/containers/registries.conf.d/10-kubexm.conf`.
#[derive(Template)]
#[template(path = "crio/registries.conf", escape = "none")]
struct Registries {
    /// Registries that the bundle has images of.
    registries: Vec<Moved>,
}

/// `/etc/crio/logins.json`.
#[derive(Template)]
#[template(path = "crio/logins.json", escape = "none")]
struct Logins {
    /// The registries.
    registries: Vec<String>,
    /// User and password, in base64. Secret.
    login: String,
}

/// A registry whose images are somewhere else.
struct Moved {
    /// How images' names begin.
    prefix: String,
    /// What stands there instead.
    location: String,
    /// What is asked before that.
    before: Vec<String>,
}

/// `/etc/crio/policy.json`: images of these registries alone may be pulled. What they must be is
/// known from the bundle's digests, over the local registry's TLS
/// (<https://github.com/containers/image/blob/main/docs/containers-policy.json.5.md>).
#[derive(Template)]
#[template(path = "crio/policy.json", escape = "none")]
struct Policy {
    /// The registries.
    registries: Vec<String>,
}
