//! The container runtime: containerd with runc, and where it finds images.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{BIN, CRI_SOCKET, DeployError, ETC, Inputs, binary, id, members, pause_image};
use crate::plan::Task;
use crate::render::{self, containerd, merge};
use crate::seed;
use crate::spec::cluster::HostSpec;
use crate::spec::{HostPath, ImageRef};
use crate::steps::{InstallFiles, ManageUnit, OwnFolders, WaitFor, WriteFile};

const CONFIG: &str = "/etc/containerd/config.toml";
const CERTS_D: &str = "/etc/containerd/certs.d";
const UNIT: &str = "containerd.service";
const RUNC: &str = "/usr/local/bin/runc";
pub(super) const CNI_BIN: &str = "/opt/cni/bin";

/// Installs and configures containerd on a node.
pub(super) fn install(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let name = &host.name;
    let (runtime, crictl) = (
        inputs.file("containerd", name)?,
        inputs.file("crictl", name)?,
    );
    let mut payloads = members(runtime, BIN, |_| true)?;
    payloads.push(binary(inputs.file("runc", name)?, RUNC)?);
    payloads.extend(members(crictl, BIN, |_| true)?);
    payloads.extend(members(inputs.file("cni-plugins", name)?, CNI_BIN, |_| {
        true
    })?);
    let config = HostPath::parse(CONFIG)?;
    let unit = HostPath::parse(&format!("/etc/systemd/system/{UNIT}"))?;
    let ca = HostPath::parse(&format!("{ETC}/registry-ca.crt"))?;
    let service = containerd::Service {
        binary: format!("{BIN}/containerd"),
        config: CONFIG.to_owned(),
    };
    let mut restart_for = vec![config.clone(), unit.clone()];
    restart_for.extend(
        payloads
            .iter()
            .map(|p| p.path.clone())
            .filter(|p| !p.as_str().starts_with(CNI_BIN)),
    );
    let crictl_config = containerd::Crictl {
        socket: CRI_SOCKET.to_owned(),
    };
    let mut task = Task::new("containerd", "install", name)
        .after([id("os", "prepare", name)])
        .step(OwnFolders::new(
            "containerd-folders",
            "containerd's folders",
            &FOLDERS,
        )?)
        .step(InstallFiles {
            title: format!("containerd {}", runtime.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(WriteFile::new(ca.clone(), inputs.certificates.ca.clone()))
        .step(WriteFile::new(
            HostPath::parse("/etc/crictl.yaml")?,
            render::text("crictl", &crictl_config)?,
        ))
        .step(WriteFile::new(config, config_text(inputs, host)?))
        .step(WriteFile::new(
            unit,
            render::text("containerd unit", &service)?,
        ));
    for (folder, source, prefix) in sources(inputs) {
        let url = format!("https://{}/v2/{prefix}", inputs.registry_address());
        let hosts = containerd::Hosts {
            source,
            url,
            ca: ca.to_string(),
        };
        let path = HostPath::parse(&format!("{CERTS_D}/{folder}/hosts.toml"))?;
        task = task.step(WriteFile::new(path, render::text("hosts.toml", &hosts)?));
    }
    Ok(task
        .step(ManageUnit {
            name: UNIT.to_owned(),
            files: restart_for,
            start: true,
        })
        .step(WaitFor {
            title: "Wait until containerd answers".to_owned(),
            script: format!("{BIN}/crictl info >/dev/null 2>&1"),
            arguments: Vec::new(),
            at_most: std::time::Duration::from_secs(60),
            diagnosis: format!("journalctl -u {UNIT} -n 20 --no-pager -o cat"),
        }))
}

/// Where containerd and its plugins keep data.
const FOLDERS: [&str; 10] = [
    "/opt/cni",
    "/opt/containerd",
    "/etc/cni",
    "/etc/containerd",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/run/containerd",
    "/run/netns",
    "/run/nri",
    "/run/xtables.lock",
];

fn config_text(inputs: &Inputs<'_>, host: &HostSpec) -> Result<String, DeployError> {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version);
    let pause = facts
        .and_then(pause_image)
        .map(ImageRef::to_string)
        .unwrap_or_default();
    let (runc, registry_config_dir) = (RUNC.to_owned(), CERTS_D.to_owned());
    let text = if inputs.file("containerd", &host.name)?.version.major() >= 2 {
        let config = containerd::ConfigV3 {
            sandbox_image: pause,
            registry_config_dir,
            runc,
        };
        render::text("containerd configuration", &config)?
    } else {
        let config = containerd::ConfigV2 {
            sandbox_image: pause,
            registry_config_dir,
            runc,
        };
        render::text("containerd configuration", &config)?
    };
    Ok(merge::toml(
        "containerd configuration",
        text,
        &inputs.cluster.containerd_config,
    )?)
}

/// Folder in `certs.d`, name for people, and repository prefix of each registry that images come
/// from. Every other registry leads to an empty corner of the local one: nothing reaches outside.
fn sources(inputs: &Inputs<'_>) -> Vec<(String, String, String)> {
    let registries: BTreeSet<&str> = inputs
        .lock
        .images
        .iter()
        .map(|image| image.name.registry())
        .collect();
    let mut sources: Vec<(String, String, String)> = registries
        .into_iter()
        .map(|registry| {
            (
                registry.to_owned(),
                registry.to_owned(),
                seed::prefix(registry),
            )
        })
        .collect();
    let other = "registries that the bundle has no image of";
    sources.push((
        "_default".to_owned(),
        other.to_owned(),
        "not-in-the-bundle".to_owned(),
    ));
    sources
}
