//! The local registry: a read-only CNCF distribution with a certificate from kubexm's CA.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::{BIN, DeployError, ETC, Inputs, journal, members, os, service_user};
use kubexm_engine::plan::{About, Task};
use kubexm_engine::seed::{RegistryContent, StoreImages};
use kubexm_engine::steps::{InstallFiles, ManageUnit, RunScript, TrackNewDirs, WaitFor, WriteFile};
use kubexm_render::registry;
use kubexm_scripts::os::PORT_OPEN;
use kubexm_scripts::registry::FOLDER;
use kubexm_types::{HostName, HostPath};

pub(crate) const UNIT: &str = "kubexm-registry.service";
/// The user that runs the registry, and its group.
const USER: &str = "kubexm-registry";
/// Only root can enter the directory of the receipt, and the registry must not see it.
const OWN_DIR: &str = "/var/lib/kubexm";
/// Where the registry sees its data.
const MOUNTED_DIR: &str = "/var/lib/kubexm/registry";
/// The directory of the images in the data directory, a name of the registry.
const IMAGES: &str = "docker";

/// Returns the task that fills and starts the registry on a host.
pub(crate) fn serve(inputs: &Inputs<'_>, name: &HostName) -> Result<Task, DeployError> {
    let cluster = inputs.cluster;
    let listen = listen_address(inputs, name);
    let data_dir = cluster.registry.data_dir.clone();
    let path = |text: String| HostPath::parse(&text);
    let config = path(format!("{ETC}/registry/config.yml"))?;
    let [certificate, key] = certificate_files(inputs)?;
    let unit_path = path(format!("/etc/systemd/system/{UNIT}"))?;
    let binary = format!("{BIN}/kubexm-registry");
    let file = inputs.file("registry", name)?;
    let mut payloads = members(file, BIN, |name| name == "registry")?;
    for payload in &mut payloads {
        payload.path = HostPath::parse(&binary)?;
    }
    let users = path(format!("{ETC}/registry/htpasswd"))?;
    let login = inputs.certificates.registry_login.as_ref();
    let config_text = kubexm_render::text(
        "registry configuration",
        &registry::Config {
            data_dir: MOUNTED_DIR.to_owned(),
            listen: listen.to_string(),
            certificate: certificate.path.to_string(),
            key: key.path.to_string(),
            users: login.map(|_| users.to_string()),
        },
    )?;
    let service = registry::Service {
        user: USER.to_owned(),
        data_dir: without_specifiers(&data_dir),
        images: without_specifiers(&data_dir.join(IMAGES)?),
        own_dir: OWN_DIR.to_owned(),
        mounted_images: format!("{MOUNTED_DIR}/{IMAGES}"),
        binary: binary.clone(),
        config: config.to_string(),
        privileged_port: cluster.registry.port < 1024,
    };
    let unit_text = kubexm_render::text("registry unit", &service)?;
    let dirs = TrackNewDirs::new(
        "registry-folder",
        "the registry's data directory",
        &[data_dir.as_str()],
    )?;
    let data = RunScript::new(
        "registry data",
        format!("Create {data_dir}"),
        FOLDER.verb("check"),
        FOLDER.verb("apply"),
    );
    let data = data.arguments([data_dir.as_str()]);
    // The install of a host with another architecture adds its images later.
    let lock = inputs.lock.only(&inputs.arches());
    let mut task = super::SERVE
        .task(name)
        .after([os::PREPARE.id(name)])
        .step(service_user::create(USER, &dirs))
        .step(dirs)
        .step(data)
        .step(InstallFiles {
            title: format!("registry {}", file.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(certificate)
        .step(key);
    if let Some(login) = login {
        let text = format!("{}\n", login.entry.0);
        task = task.step(WriteFile::secret(users, text).readable_by(USER));
    }
    // The next install concludes from this file whether clients need the login before the registry requires it.
    Ok(task
        .step(WriteFile::new(config, config_text))
        .step(WriteFile::new(unit_path, unit_text))
        .step(StoreImages {
            id: "registry images".to_owned(),
            title: format!("Upload {} images into the registry", lock.images.len()),
            content: RegistryContent::new(&lock),
            data_dir,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(unit(inputs)?)
        .step(listens(listen)))
}

/// Adds the steps that write the registry's certificate, that restart the registry, and that wait for it.
pub(crate) fn renewed(
    inputs: &Inputs<'_>,
    name: &HostName,
    task: Task,
) -> Result<Task, DeployError> {
    let [certificate, key] = certificate_files(inputs)?;
    Ok(task
        .step(certificate)
        .step(key)
        .step(unit(inputs)?)
        .step(listens(listen_address(inputs, name))))
}

/// Returns the files with the registry's certificate and its key.
fn certificate_files(inputs: &Inputs<'_>) -> Result<[WriteFile; 2], DeployError> {
    let pair = &inputs.certificates.registry;
    let path = |name: &str| HostPath::parse(&format!("{ETC}/registry/{name}"));
    Ok([
        WriteFile::new(path("tls.crt")?, pair.certificate.clone()),
        WriteFile::secret(path("tls.key")?, pair.key.clone()).readable_by(USER),
    ])
}

/// Returns the step that runs the registry with the present content of its files.
fn unit(inputs: &Inputs<'_>) -> Result<ManageUnit, DeployError> {
    let mut files = vec![
        format!("{BIN}/kubexm-registry"),
        format!("{ETC}/registry/config.yml"),
        format!("{ETC}/registry/tls.crt"),
        format!("{ETC}/registry/tls.key"),
        format!("/etc/systemd/system/{UNIT}"),
    ];
    if inputs.certificates.registry_login.is_some() {
        files.push(format!("{ETC}/registry/htpasswd"));
    }
    let files = files.iter().map(|path| HostPath::parse(path));
    Ok(ManageUnit {
        name: UNIT.to_owned(),
        files: files.collect::<Result<_, _>>()?,
        reload: None,
        start: true,
    })
}

fn listen_address(inputs: &Inputs<'_>, name: &HostName) -> SocketAddr {
    let host = inputs
        .cluster
        .host(name)
        .map(|host| host.internal_address());
    let host = host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    SocketAddr::new(host, inputs.cluster.registry.port)
}

/// Returns the step that waits until the registry listens.
fn listens(listen: SocketAddr) -> WaitFor {
    WaitFor {
        title: "Wait until the registry listens".to_owned(),
        script: PORT_OPEN,
        arguments: vec![listen.ip().to_string(), listen.port().to_string()],
        at_most: std::time::Duration::from_secs(30),
        diagnosis: journal(UNIT, 20),
        about: About::Other,
    }
}

/// Returns a path for a unit, without specifiers (systemd.unit(5)).
fn without_specifiers(path: &HostPath) -> String {
    path.as_str().replace('%', "%%")
}
