//! What every runtime has in common: crictl, CNI plugins, and scripts that ask it by its CRI socket.

use std::collections::BTreeSet;
use std::time::Duration;

use super::CNI_BIN;
use crate::{BIN, DeployError, Inputs, journal, kubernetes, members, registry};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{Payload, WaitFor, WriteFile};
use kubexm_render::cri;
use kubexm_types::{HostPath, ImageRef};

/// What stands for the name of a registry in `hosts.toml` of all others.
const OTHERS: &str = "registries that the bundle has no image of";

/// Folders and files that CNI plugins and shims make.
pub(super) const FOLDERS: [&str; 6] = [
    "/opt/cni",
    "/etc/cni",
    "/var/lib/cni",
    "/run/netns",
    "/run/nri",
    "/run/xtables.lock",
];

/// crictl and the CNI plugins.
pub(super) fn payloads(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = members(inputs.file("crictl", &host.name)?, BIN, |_| true)?;
    let plugins = inputs.file("cni-plugins", &host.name)?;
    payloads.extend(members(plugins, CNI_BIN, |_| true)?);
    Ok(payloads)
}

/// Files that a runtime must be started anew for: CNI plugins run by themselves.
pub(super) fn restart_for(payloads: &[Payload]) -> Vec<HostPath> {
    let own = payloads.iter().map(|payload| payload.path.clone());
    own.filter(|path| !path.as_str().starts_with(CNI_BIN))
        .collect()
}

/// `/etc/crictl.yaml`, so that crictl finds the runtime by itself.
pub(super) fn crictl_config(socket: &str) -> Result<WriteFile, DeployError> {
    let config = cri::Crictl {
        socket: socket.to_owned(),
    };
    Ok(WriteFile::new(
        HostPath::parse("/etc/crictl.yaml")?,
        kubexm_render::text("crictl", &config)?,
    ))
}

/// Has images of all registries come from the local one, for runtimes that look for `hosts.toml` in the
/// folder `certs_d`.
pub(super) fn mirrors(
    mut task: Task,
    inputs: &Inputs<'_>,
    certs_d: &str,
) -> Result<Task, DeployError> {
    let ca = registry::ca(inputs)?;
    let ca_path = ca.as_ref().map(|file| file.path.to_string());
    let authorization = registry::authorization(inputs)?;
    if let Some(ca) = ca {
        task = task.step(ca);
    }
    for mirror in registry::mirrors(inputs) {
        let urls = mirror.urls();
        let folder = mirror.source.clone().unwrap_or("_default".to_owned());
        let hosts = cri::Hosts {
            source: mirror.source.unwrap_or(OTHERS.to_owned()),
            server: urls.first().cloned().unwrap_or_default(),
            urls,
            ca: ca_path.clone(),
            authorization: authorization.clone(),
        };
        let path = HostPath::parse(&format!("{certs_d}/{folder}/hosts.toml"))?;
        let text = kubexm_render::text("hosts.toml", &hosts)?;
        task = task.step(match authorization {
            Some(_) => WriteFile::secret(path, text),
            None => WriteFile::new(path, text),
        });
    }
    Ok(task)
}

/// The CA of the registries where a runtime looks for it by their names, as in
/// `certs.d/<host:port>/ca.crt`.
pub(super) fn registry_ca(
    mut task: Task,
    inputs: &Inputs<'_>,
    certs_d: &str,
) -> Result<Task, DeployError> {
    let Some(text) = registry::ca_text(inputs)? else {
        return Ok(task);
    };
    for endpoint in registry::endpoints(inputs) {
        let path = HostPath::parse(&format!("{certs_d}/{endpoint}/ca.crt"))?;
        task = task.step(WriteFile::new(path, text.clone()));
    }
    Ok(task)
}

/// A unit's file.
pub(super) fn unit_file(name: &str) -> Result<HostPath, DeployError> {
    Ok(HostPath::parse(&format!("/etc/systemd/system/{name}"))?)
}

/// What a runtime that knows no catch-all for registries may reach without the proxy that it is given,
/// which is none: the cluster itself, for plugins that it starts ask the API server.
pub(super) fn reachable(inputs: &Inputs<'_>) -> String {
    let cluster = inputs.cluster;
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.0/8".to_owned(),
        "::1".to_owned(),
        cluster.registry.host_name.to_string(),
        cluster.control_plane_endpoint.host.clone(),
        cluster.network.service_cidr.to_string(),
        cluster.network.pod_cidr.to_string(),
    ];
    for host in &cluster.hosts {
        names.push(host.name.to_string());
        names.push(host.internal_address.to_string());
    }
    let endpoints = registry::endpoints(inputs).into_iter();
    names.extend(endpoints.filter_map(|endpoint| Some(endpoint.rsplit_once(':')?.0.to_owned())));
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names.join(",")
}

/// Waits until the runtime answers by its socket.
pub(super) fn answers(name: &str, unit: &str) -> WaitFor {
    WaitFor {
        title: format!("Wait until {name} answers"),
        script: "/usr/local/bin/crictl info >/dev/null 2>&1".into(),
        arguments: Vec::new(),
        at_most: Duration::from_secs(60),
        diagnosis: journal(unit, 20),
    }
}

/// The sandbox image that this version's kubeadm expects.
pub(super) fn sandbox_image(inputs: &Inputs<'_>) -> String {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version);
    let image = facts.and_then(kubernetes::pause_image);
    image.map(ImageRef::to_string).unwrap_or_default()
}
