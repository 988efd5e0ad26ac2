//! The TCP proxies: what they are configured with, and how systemd runs them.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Image;
use crate::{DeployError, ETC, Inputs, journal, kubernetes, load_balancer};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Slot, StepError, Task, TaskId};
use kubexm_engine::steps::{Content, ManageUnit, Produce, RunScript, Undo, WaitFor, WriteFile};
use kubexm_render::RenderError;
use kubexm_render::load_balancer as template;
use kubexm_render::load_balancer::Server;
use kubexm_scripts::load_balancer as scripts;
use kubexm_scripts::os::PORT_OPEN;
use kubexm_types::{HostName, HostPath};

/// Port on loopback at which a proxy tells keepalived how it is.
pub(super) const HEALTH_PORT: u16 = 7444;

/// What a proxy's configuration depends on besides the cluster.
pub(super) struct Setting {
    /// Where it listens.
    pub(super) bind: String,
    /// Folder that it may write to.
    pub(super) run: String,
    /// File of the CA that it asks API servers by.
    pub(super) ca: String,
    /// Whether somebody asks how it is.
    pub(super) health: bool,
}

impl Setting {
    /// `address:port` of the proxy's own health check, where somebody asks.
    pub(super) fn health(&self) -> Option<String> {
        self.health.then(|| format!("127.0.0.1:{HEALTH_PORT}"))
    }
}

/// A TCP proxy.
pub(super) trait Proxy: Sync {
    /// Its program and its container go by this name.
    fn name(&self) -> &'static str;

    /// OS packages with it; that which is called like it brings a service, which never starts.
    fn packages(&self, format: PackageFormat) -> Vec<&'static str>;

    /// Its image.
    fn image(&self) -> Image;

    /// File of its configuration on hosts.
    fn config_file(&self) -> String;

    /// Its arguments.
    fn arguments(&self) -> Vec<String>;

    /// Its configuration.
    fn config(&self, cluster: &Cluster, setting: &Setting) -> Result<String, RenderError>;

    /// Signal that makes it read its configuration again without cutting connections.
    fn reload_signal(&self) -> &'static str;

    /// Whether it asks API servers how they are, and so wants the cluster's CA.
    fn asks_servers(&self) -> bool;

    /// The unit that kubexm runs it in.
    fn unit(&self) -> String {
        format!("kubexm-{}.service", self.name())
    }

    /// Folder of its configuration on hosts.
    fn folder(&self) -> String {
        format!("{ETC}/{}", self.name())
    }

    /// Folder under `/run` of its unit.
    fn run(&self) -> String {
        format!("kubexm-{}", self.name())
    }

    /// Its CA file where systemd runs it.
    fn ca_file(&self) -> String {
        format!("{}/ca.crt", self.folder())
    }
}

/// The API servers, as its configuration has them.
pub(super) fn servers(cluster: &Cluster) -> Vec<Server> {
    let names = cluster.roles.control_plane.iter();
    let hosts = names.filter_map(|name| cluster.host(name));
    hosts
        .map(|host| Server {
            name: host.name.to_string(),
            address: SocketAddr::new(host.internal_address, kubernetes::BIND_PORT).to_string(),
        })
        .collect()
}

/// The task that brings a load balancer up on a host.
pub(super) fn serving(host: &HostName) -> TaskId {
    load_balancer::SERVE.id(host)
}

/// Tasks after which a host may become a node where proxies on `balancers` stand before the API
/// servers. Joins wait until the proxies check by the cluster's CA: their connections outlive no
/// reload.
pub(super) fn ready<'a>(
    inputs: &Inputs<'_>,
    proxy: &dyn Proxy,
    balancers: impl IntoIterator<Item = &'a HostName>,
    host: &HostSpec,
) -> Vec<TaskId> {
    let is_first = inputs.first().is_some_and(|first| first.name == host.name);
    let balancers = balancers.into_iter();
    match proxy.asks_servers() && !is_first {
        true => balancers
            .map(|name| load_balancer::VERIFY.id(name))
            .collect(),
        false => balancers.map(serving).collect(),
    }
}

/// Adds to a task what has systemd run a proxy that listens at `bind`.
pub(super) fn serve(
    inputs: &Inputs<'_>,
    task: Task,
    proxy: &dyn Proxy,
    bind: String,
    health: bool,
) -> Result<Task, DeployError> {
    let port = inputs.cluster.control_plane_endpoint.port;
    let config = HostPath::parse(&proxy.config_file())?;
    let unit = HostPath::parse(&format!("/etc/systemd/system/{}", proxy.unit()))?;
    let setting = Setting {
        bind,
        run: format!("/run/{}", proxy.run()),
        ca: proxy.ca_file(),
        health,
    };
    let command = format!("/usr/sbin/{} {}", proxy.name(), proxy.arguments().join(" "));
    let service = template::ProxyService {
        title: proxy.name().to_owned(),
        command,
        reload_signal: proxy.reload_signal(),
        run: proxy.run(),
    };
    let mut task = task
        .step(WriteFile::new(
            config.clone(),
            proxy.config(inputs.cluster, &setting)?,
        ))
        .step(WriteFile::new(
            unit.clone(),
            kubexm_render::text("proxy unit", &service)?,
        ));
    if proxy.asks_servers() {
        task = task.step(first_ca(inputs, proxy)?);
    }
    let wait = WaitFor {
        title: format!("Wait until {} listens", proxy.name()),
        script: PORT_OPEN,
        arguments: vec![
            "127.0.0.1".to_owned(),
            match health {
                true => HEALTH_PORT.to_string(),
                false => port.to_string(),
            },
        ],
        at_most: std::time::Duration::from_secs(30),
        diagnosis: journal(&proxy.unit(), 20),
    };
    Ok(task
        .step(ManageUnit {
            name: proxy.unit(),
            files: vec![config, unit],
            start: true,
        })
        .step(wait))
}

/// A CA that signed no API server: a proxy that asks them needs one to start, and there is no other yet. Its
/// checks fail with it, so it uses every server unchecked.
fn first_ca(inputs: &Inputs<'_>, proxy: &dyn Proxy) -> Result<RunScript, DeployError> {
    let path = HostPath::parse(&proxy.ca_file())?;
    let title = format!("Give {} a CA until the cluster has its own", proxy.name());
    let ca = inputs.certificates.ca.clone();
    let folders = Vec::new();
    Ok(RunScript::new(
        "proxy ca",
        title,
        scripts::PROXY_CA.verb("check"),
        scripts::PROXY_CA.verb("put"),
    )
    .arguments([path.as_str()])
    .input(Arc::new(move || Ok(ca.clone().into_bytes())))
    .undo(Undo::RemoveFile { path, folders }))
}

/// Tasks that give proxies on `hosts` the cluster's CA, once there is one: from then on those that ask
/// know which API server is ready.
pub(super) fn verify(
    inputs: &Inputs<'_>,
    proxy: &dyn Proxy,
    hosts: &[&HostSpec],
) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first().filter(|_| proxy.asks_servers()) else {
        return Ok(Vec::new());
    };
    let slot: Slot<String> = Slot::new("load_balancer.cluster_ca");
    let ask = Produce {
        title: "Ask for the cluster's CA".to_owned(),
        script: scripts::CLUSTER_CA,
        arguments: Vec::new(),
        input: None,
        parse: Box::new(
            |text| match text.starts_with("-----BEGIN CERTIFICATE-----") {
                true => Ok(text.to_owned()),
                false => Err("admin.conf holds no CA".to_owned()),
            },
        ),
        slot: slot.clone(),
        files: Vec::new(),
    };
    let asking = load_balancer::AUTHORITY
        .task(&first.name)
        .after([kubernetes::first_control_plane(first)])
        .step(ask);
    let mut tasks = vec![asking];
    for host in hosts {
        let path = HostPath::parse(&proxy.ca_file())?;
        let ca = slot.clone();
        let mut file = WriteFile::new(path.clone(), String::new());
        file.content = Content::Later {
            preview: "<the cluster's CA>\n".to_owned(),
            produce: Arc::new(move || ca.get().cloned().ok_or(StepError::Missing(ca.name()))),
        };
        let title = format!("Let {} check by the cluster's CA", proxy.name());
        let reload = RunScript::new(
            "proxy reload",
            title,
            scripts::PROXY_RELOAD.verb("check"),
            scripts::PROXY_RELOAD.verb("reload"),
        );
        let mut task = load_balancer::VERIFY
            .task(&host.name)
            .after([serving(&host.name)])
            .step(file)
            .step(reload.arguments([proxy.unit().as_str(), path.as_str()]));
        task.needs.push(slot.name());
        tasks.push(task);
    }
    Ok(tasks)
}
