//! CRI-O with crun and conmon, from the static archive of the CRI-O project.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CNI_BIN, INSTALL, ImageScripts, Runtime, cri};
use crate::registry::site;
use crate::{BIN, DeployError, Inputs, members, os, registry};
use kubexm_bundle::lock::LockedFile;
use kubexm_config::cluster::{HostSpec, RuntimeKind, RuntimeProperties};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, Payload, TrackNewDirs, WriteFile};
use kubexm_render::{crio, merge};
use kubexm_scripts::runtime as scripts;
use kubexm_scripts::undo::{STOP_CRIO_SCOPES, UndoScript};
use kubexm_types::HostPath;

const OWN: &RuntimeProperties = RuntimeKind::CriO.properties();
const POLICY: &str = "/etc/crio/policy.json";
const REGISTRIES: &str = "/etc/containers/registries.conf.d/10-kubexm.conf";
const LOGINS: &str = "/etc/crio/logins.json";
/// The directory of conmon, crun and runc. A host may have its own versions for podman.
const LIBEXEC: &str = "/usr/local/libexec/crio";

/// CRI-O with crun.
pub(super) struct CriO;

impl Runtime for CriO {
    fn install(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        images: &[String],
    ) -> Result<Task, DeployError> {
        let file = inputs.file("cri-o", &host.name)?;
        let data_dir = inputs.cluster.runtime.data_directory();
        let mut payloads = programs(file)?;
        payloads.extend(cri::payloads(inputs, host)?);
        let mut restart_for = cri::restart_for(&payloads);
        let dirs = [&OWN.paths()[..], &cri::DIRS[..], &[data_dir]].concat();
        let mut task = INSTALL
            .task(&host.name)
            .after([os::PREPARE.id(&host.name)])
            .step(TrackNewDirs::new(
                "crio-folders",
                "CRI-O's directories",
                &dirs,
            )?)
            .step(InstallFiles {
                title: format!("CRI-O {}", file.version),
                payloads,
                blobs: Arc::clone(&inputs.blobs),
            })
            .step(cri::crictl_config(OWN.socket)?);
        task = cri::registry_ca(task, inputs, OWN.certs_d)?;
        task = cri::site_cas(task, inputs, OWN.certs_d)?;
        let logins = logins(inputs)?;
        let has_logins = logins.is_some();
        if let Some(logins) = logins {
            task = task.step(WriteFile::secret(HostPath::parse(LOGINS)?, logins));
        }
        for (path, text) in files(inputs, images, data_dir, has_logins)? {
            let path = HostPath::parse(path)?;
            restart_for.push(path.clone());
            task = task.step(WriteFile::new(path, text));
        }
        let service = crio::Service {
            binary: format!("{BIN}/crio"),
            reachable: cri::reachable(inputs),
        };
        let unit = cri::unit_file(OWN.unit)?;
        restart_for.push(unit.clone());
        Ok(task
            .step(WriteFile::new(
                unit,
                kubexm_render::text("crio unit", &service)?,
            ))
            .step(ManageUnit {
                name: OWN.unit.to_owned(),
                files: restart_for,
                reload: None,
                start: true,
            })
            .step(cri::wait_until_ready("CRI-O", OWN.unit)))
    }

    fn registry_cas(&self) -> Option<&'static str> {
        Some(OWN.certs_d)
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: scripts::CRI_IMAGES.verb("pinned"),
            pull: scripts::CRI_IMAGES.verb("pull"),
        }
    }

    fn after_pods(&self) -> Option<UndoScript> {
        Some(STOP_CRIO_SCOPES)
    }
}

/// Returns the credentials for registries that require them. Secret.
fn logins(inputs: &Inputs<'_>) -> Result<Option<String>, DeployError> {
    let authorization = registry::authorization(inputs)?;
    let login = authorization
        .as_deref()
        .and_then(|a| a.strip_prefix("Basic "));
    let mut logins = BTreeMap::new();
    for server in site::registries(inputs)?
        .into_iter()
        .flat_map(|site| site.servers)
    {
        logins.extend(server.login.map(|login| (server.address, login)));
    }
    if let Some(login) = login {
        let endpoints = registry::endpoints(inputs.cluster).into_iter();
        logins.extend(endpoints.map(|endpoint| (endpoint, login.to_owned())));
    }
    if logins.is_empty() {
        return Ok(None);
    }
    Ok(Some(kubexm_render::text(
        "CRI-O logins",
        &crio::Logins { logins },
    )?))
}

/// Returns the programs: crio and pinns in `/usr/local/bin`, the others in CRI-O's own directory.
fn programs(file: &LockedFile) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = members(file, BIN, |name| matches!(name, "crio" | "pinns"))?;
    payloads.extend(members(file, LIBEXEC, |name| {
        matches!(name, "crun" | "runc" | "conmon")
    })?);
    Ok(payloads)
}

/// Returns the locations of all registries: of the bundle's images, and of the site.
fn locations(inputs: &Inputs<'_>) -> Result<Vec<crio::RegistryLocation>, DeployError> {
    let mirrors = registry::mirrors(inputs).into_iter();
    let mut all: Vec<(String, Vec<crio::Location>)> = Vec::new();
    for mirror in mirrors {
        let locations = mirror.locations().into_iter();
        let locations = locations.map(|address| crio::Location {
            address,
            insecure: false,
        });
        if let Some(source) = mirror.source {
            all.push((source, locations.collect()));
        }
    }
    // Images of the bundle come from the cluster's registry, others from the servers of the site.
    for site in site::registries(inputs)? {
        let servers = site.servers.into_iter();
        let servers = servers.map(|server| crio::Location {
            address: server.address,
            insecure: server.insecure,
        });
        match all.iter_mut().find(|(source, _)| *source == site.name) {
            Some((_, locations)) => locations.extend(servers),
            None => all.push((site.name, servers.collect())),
        }
    }
    let location = |(prefix, mut locations): (String, Vec<crio::Location>)| {
        Some(crio::RegistryLocation {
            prefix,
            location: locations.pop()?,
            before: locations,
        })
    };
    Ok(all.into_iter().filter_map(location).collect())
}

/// Returns the files that CRI-O reads when it starts.
fn files(
    inputs: &Inputs<'_>,
    images: &[String],
    data_dir: &str,
    has_logins: bool,
) -> Result<[(&'static str, String); 3], DeployError> {
    let what = "CRI-O configuration";
    let config = crio::Config {
        cgroup_driver: inputs.cluster.runtime.cgroup_driver.name().to_owned(),
        root: data_dir.to_owned(),
        socket: OWN.socket.trim_start_matches("unix://").to_owned(),
        pinns: format!("{BIN}/pinns"),
        crun: format!("{LIBEXEC}/crun"),
        runc: format!("{LIBEXEC}/runc"),
        conmon: format!("{LIBEXEC}/conmon"),
        others: cri::other_runtimes(inputs),
        sandbox_image: cri::sandbox_image(inputs),
        pinned_images: images.to_vec(),
        policy: POLICY.to_owned(),
        cni_bin: CNI_BIN.to_owned(),
        logins: has_logins.then(|| LOGINS.to_owned()),
    };
    let settings = &inputs.cluster.runtime.extra_config;
    let config = merge::toml(what, kubexm_render::text(what, &config)?, settings)?;
    let locations = locations(inputs)?;
    let prefixes = locations.iter().map(|registry| registry.prefix.clone());
    let policy = crio::Policy {
        registries: prefixes.collect(),
    };
    let registries = crio::Registries {
        registries: locations,
        has_sites: !inputs.cluster.runtime.registries.is_empty(),
    };
    Ok([
        (OWN.config, config),
        (POLICY, kubexm_render::text("CRI-O policy", &policy)?),
        (
            REGISTRIES,
            kubexm_render::text("CRI-O registries", &registries)?,
        ),
    ])
}
