//! Parts that all runtimes share: crictl, CNI plugins, mirrors, and the check of the CRI socket.

use std::collections::BTreeSet;
use std::time::Duration;

use super::CNI_BIN;
use crate::registry::site::{self, Site};
use crate::{BIN, DeployError, Inputs, journal, members, registry};
use kubexm_bundle::lock::KubeadmFacts;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{About, Task};
use kubexm_engine::steps::{Payload, WaitFor, WriteFile};
use kubexm_render::cri;
use kubexm_types::{HostPath, ImageRef};

/// The name in the comment of the default `hosts.toml`.
const OTHERS: &str = "registries without images in the bundle";

/// Directories and files that CNI plugins and shims create.
pub(super) const DIRS: [&str; 6] = [
    "/opt/cni",
    "/etc/cni",
    "/var/lib/cni",
    "/run/netns",
    "/run/nri",
    "/run/xtables.lock",
];

/// Returns the runtimes that the configuration of the container runtime has besides its own.
pub(super) fn other_runtimes(inputs: &Inputs<'_>) -> Vec<cri::OciRuntime> {
    let classes = inputs.cluster.runtime.classes.iter();
    classes
        .filter_map(|class| {
            Some(cri::OciRuntime {
                name: class.name.to_string(),
                program: class.program.as_ref()?.to_string(),
            })
        })
        .collect()
}

/// Returns the files of crictl and the CNI plugins.
pub(super) fn payloads(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = members(inputs.file("crictl", &host.name)?, BIN, |_| true)?;
    let plugins = inputs.file("cni-plugins", &host.name)?;
    payloads.extend(members(plugins, CNI_BIN, |_| true)?);
    Ok(payloads)
}

/// Returns the files whose change requires a restart of the runtime. CNI plugins are separate programs.
pub(super) fn restart_for(payloads: &[Payload]) -> Vec<HostPath> {
    let own = payloads.iter().map(|payload| payload.path.clone());
    own.filter(|path| !path.as_str().starts_with(CNI_BIN))
        .collect()
}

/// Returns `/etc/crictl.yaml`, which configures the runtime's socket.
pub(super) fn crictl_config(socket: &str) -> Result<WriteFile, DeployError> {
    let config = cri::Crictl {
        socket: socket.to_owned(),
    };
    Ok(WriteFile::new(
        HostPath::parse("/etc/crictl.yaml")?,
        kubexm_render::text("crictl", &config)?,
    ))
}

/// Adds a mirror for each registry to the task, for runtimes that read `hosts.toml` files in the directory
/// `certs_d`. The runtime then pulls all images from the local registry.
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
    let sites = site::registries(inputs)?;
    for mirror in registry::mirrors(inputs) {
        let is_site = |site: &Site| Some(&site.name) == mirror.source.as_ref();
        if sites.iter().any(is_site) {
            continue;
        }
        let urls = mirror.urls();
        let dir = mirror.source.clone().unwrap_or("_default".to_owned());
        let hosts = cri::Hosts {
            source: mirror.source.unwrap_or(OTHERS.to_owned()),
            server: urls.first().cloned().unwrap_or_default(),
            urls,
            ca: ca_path.clone(),
            authorization: authorization.clone(),
        };
        let path = HostPath::parse(&format!("{certs_d}/{dir}/hosts.toml"))?;
        let text = kubexm_render::text("hosts.toml", &hosts)?;
        task = task.step(match authorization {
            Some(_) => WriteFile::secret(path, text),
            None => WriteFile::new(path, text),
        });
    }
    let own = |url: String| cri::SiteHost {
        url,
        ca: ca_path.clone(),
        skip_verify: false,
        override_path: true,
        authorization: authorization.clone(),
    };
    let mut written = BTreeSet::new();
    for site in sites {
        for server in &site.servers {
            let ca = server.ca_file()?;
            if let Some(ca) = ca.filter(|file| written.insert(file.path.clone())) {
                task = task.step(ca);
            }
        }
        // Images of the bundle come from the cluster's registry, others from the servers of the site.
        let mirrors = registry::mirrors(inputs).into_iter();
        let bundle = mirrors.filter(|mirror| mirror.source.as_ref() == Some(&site.name));
        let own: Vec<cri::SiteHost> = bundle.flat_map(|mirror| mirror.urls()).map(own).collect();
        task = task.step(site_hosts(&site, own, certs_d)?);
    }
    Ok(task)
}

/// Returns the `hosts.toml` of a registry of the site. `own` are the cluster's registries, which the runtime tries first.
fn site_hosts(
    site: &Site,
    own: Vec<cri::SiteHost>,
    certs_d: &str,
) -> Result<WriteFile, DeployError> {
    let host = |server: &site::Server, url: String| cri::SiteHost {
        url,
        ca: server.ca_path(),
        skip_verify: server.insecure,
        override_path: false,
        authorization: server.login.as_ref().map(|login| format!("Basic {login}")),
    };
    let urls = site.servers.iter();
    let urls = urls.flat_map(|server| server.urls().into_iter().map(move |url| host(server, url)));
    let hosts: Vec<cri::SiteHost> = own.into_iter().chain(urls).collect();
    let is_secret = hosts.iter().any(|host| host.authorization.is_some());
    let last = hosts.last().cloned();
    let last = last.ok_or(DeployError::Unsupported("a registry without a server"))?;
    let file = cri::SiteHosts {
        source: site.name.clone(),
        hosts,
        last,
    };
    let text = kubexm_render::text("hosts.toml", &file)?;
    let path = HostPath::parse(&format!("{certs_d}/{}/hosts.toml", site.name))?;
    Ok(if is_secret {
        WriteFile::secret(path, text)
    } else {
        WriteFile::new(path, text)
    })
}

/// Adds the CA of the registries to the task, for runtimes that read `<certs_d>/<host:port>/ca.crt`.
pub(super) fn registry_ca(
    mut task: Task,
    inputs: &Inputs<'_>,
    certs_d: &str,
) -> Result<Task, DeployError> {
    let Some(text) = registry::ca_text(inputs)? else {
        return Ok(task);
    };
    for endpoint in registry::endpoints(inputs.cluster) {
        let path = HostPath::parse(&format!("{certs_d}/{endpoint}/ca.crt"))?;
        task = task.step(WriteFile::new(path, text.clone()));
    }
    Ok(task)
}

/// Adds the CAs of the site's registries to the task, for runtimes that read `<certs_d>/<host:port>/ca.crt`.
pub(super) fn site_cas(
    mut task: Task,
    inputs: &Inputs<'_>,
    certs_d: &str,
) -> Result<Task, DeployError> {
    let sites = site::registries(inputs)?.into_iter();
    let mut written: BTreeSet<String> = registry::endpoints(inputs.cluster).into_iter().collect();
    for server in sites.flat_map(|site| site.servers) {
        if let Some(text) = server.ca.filter(|_| written.insert(server.address.clone())) {
            let path = HostPath::parse(&format!("{certs_d}/{}/ca.crt", server.address))?;
            task = task.step(WriteFile::new(path, text));
        }
    }
    Ok(task)
}

/// Returns the path of a unit's file.
pub(super) fn unit_file(name: &str) -> Result<HostPath, DeployError> {
    Ok(HostPath::parse(&format!("/etc/systemd/system/{name}"))?)
}

/// Returns the value of `NO_PROXY` for runtimes that have no default mirror for unknown registries.
///
/// Their unit sets a proxy that does not exist, so that they cannot connect to other registries. Plugins
/// that they start connect to the API server, so the list contains the hosts and networks of the cluster.
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
        names.extend(
            host.internal_addresses
                .iter()
                .map(|address| address.to_string()),
        );
    }
    let endpoints = registry::endpoints(inputs.cluster).into_iter();
    names.extend(endpoints.filter_map(|endpoint| Some(endpoint.rsplit_once(':')?.0.to_owned())));
    for registry in &cluster.runtime.registries {
        let servers = registry.mirrors.iter().chain([&registry.name]);
        names.extend(servers.map(|server| match server.rsplit_once(':') {
            Some((host, _)) => host.to_owned(),
            None => server.clone(),
        }));
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names.join(",")
}

/// Waits until the runtime answers on its CRI socket.
pub(super) fn wait_until_ready(name: &str, unit: &str) -> WaitFor {
    WaitFor {
        title: format!("Wait until {name} answers"),
        script: "/usr/local/bin/crictl info >/dev/null 2>&1".into(),
        arguments: Vec::new(),
        at_most: Duration::from_secs(60),
        diagnosis: journal(unit, 20),
        about: About::Other,
    }
}

/// Returns the sandbox image that this version of kubeadm expects.
pub(super) fn sandbox_image(inputs: &Inputs<'_>) -> String {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version);
    let image = facts.and_then(KubeadmFacts::pause_image);
    image.map(ImageRef::to_string).unwrap_or_default()
}
