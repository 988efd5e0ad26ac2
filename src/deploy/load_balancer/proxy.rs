//! TCP proxies: their configuration, and how systemd runs them.

use std::sync::Arc;

use super::interface::{AUTHORITY, Image, SERVE, VERIFY};
use crate::{DeployError, ETC, Inputs, journal, kubernetes};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_config::ports;
use kubexm_engine::plan::{Task, TaskId, TaskValue};
use kubexm_engine::steps::{
    Content, ManageUnit, ProvideValue, Reload, RunScript, Undo, WaitFor, WriteFile,
};
use kubexm_render::RenderError;
use kubexm_render::load_balancer as template;
use kubexm_render::load_balancer::Server;
use kubexm_scripts::load_balancer as scripts;
use kubexm_scripts::os::PORT_OPEN;
use kubexm_types::{HostName, HostPath};

/// Parameters of a proxy's configuration that do not depend on the cluster.
pub(super) struct Settings {
    /// `address:port` that it listens on.
    pub(super) bind: String,
    /// A directory that it may write to.
    pub(super) run: String,
    /// File of the CA that signed the API servers' certificates.
    pub(super) ca: String,
    /// Whether it has a health check, for keepalived.
    pub(super) health: bool,
}

impl Settings {
    /// Returns `address:port` of the health check; `None` without one.
    pub(super) fn health(&self) -> Option<String> {
        self.health
            .then(|| format!("127.0.0.1:{}", ports::PROXY_HEALTH))
    }
}

/// A TCP proxy.
pub(super) trait Proxy: Sync {
    /// Returns the name of its program and its container.
    fn name(&self) -> &'static str;

    /// Returns its OS packages. The package of the same name contains a service, which kubexm masks.
    fn packages(&self, format: PackageFormat) -> Vec<&'static str>;

    /// Returns its image.
    fn image(&self) -> Image;

    /// Returns the path of its configuration on hosts.
    fn config_file(&self) -> String;

    /// Returns its arguments.
    fn arguments(&self) -> Vec<String>;

    /// Returns its configuration.
    fn config(&self, cluster: &Cluster, settings: &Settings) -> Result<String, RenderError>;

    /// Returns the signal that makes it reload its configuration without closing connections.
    fn reload_signal(&self) -> &'static str;

    /// Returns the argument with which it only tests its configuration.
    fn test_argument(&self) -> &'static str;

    /// Returns whether it checks the health of API servers, and therefore needs the cluster's CA.
    fn checks_servers(&self) -> bool;

    /// Returns the name of its unit.
    fn unit(&self) -> String {
        format!("kubexm-{}.service", self.name())
    }

    /// Returns the directory of its configuration on hosts.
    fn dir(&self) -> String {
        format!("{ETC}/{}", self.name())
    }

    /// Returns the name of its directory in `/run`.
    fn run(&self) -> String {
        format!("kubexm-{}", self.name())
    }

    /// Returns the path of its CA file if systemd runs it.
    fn ca_file(&self) -> String {
        format!("{}/ca.crt", self.dir())
    }
}

/// Returns the API servers for a proxy's configuration.
pub(super) fn servers(cluster: &Cluster) -> Vec<Server> {
    let names = cluster.roles.control_plane.iter();
    let hosts = names.filter_map(|name| cluster.host(name));
    hosts
        .map(|host| Server {
            name: host.name.to_string(),
            address: cluster.api_server(host).to_string(),
        })
        .collect()
}

/// Returns the task that starts a load balancer on a host.
pub(super) fn serving(host: &HostName) -> TaskId {
    SERVE.id(host)
}

/// Returns the tasks that must succeed before a host becomes a node, with proxies on `balancers`.
///
/// Joins wait until the proxies verify API servers with the cluster's CA, because the reload closes
/// connections.
pub(super) fn tasks_before_join<'a>(
    inputs: &Inputs<'_>,
    proxy: &dyn Proxy,
    balancers: impl IntoIterator<Item = &'a HostName>,
    host: &HostSpec,
) -> Vec<TaskId> {
    let is_first = inputs.first().is_some_and(|first| first.name == host.name);
    let balancers = balancers.into_iter();
    if proxy.checks_servers() && !is_first {
        balancers.map(|name| VERIFY.id(name)).collect()
    } else {
        balancers.map(serving).collect()
    }
}

/// Adds the steps that run a proxy on `bind` with systemd.
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
    let settings = Settings {
        bind,
        run: format!("/run/{}", proxy.run()),
        ca: proxy.ca_file(),
        health,
    };
    let command = format!("/usr/sbin/{} {}", proxy.name(), proxy.arguments().join(" "));
    let service = template::ProxyService {
        title: proxy.name().to_owned(),
        command: command.clone(),
        reload_signal: proxy.reload_signal(),
        run: proxy.run(),
    };
    let mut task = task
        .step(WriteFile::new(
            config.clone(),
            proxy.config(inputs.cluster, &settings)?,
        ))
        .step(WriteFile::new(
            unit.clone(),
            kubexm_render::text("proxy unit", &service)?,
        ));
    if proxy.checks_servers() {
        task = task.step(initial_ca(inputs, proxy)?);
    }
    let wait = WaitFor {
        title: format!("Wait until {} listens", proxy.name()),
        script: PORT_OPEN,
        arguments: vec![
            "127.0.0.1".to_owned(),
            if health {
                ports::PROXY_HEALTH.to_string()
            } else {
                port.to_string()
            },
        ],
        at_most: std::time::Duration::from_secs(30),
        diagnosis: journal(&proxy.unit(), 20),
        hosts: Vec::new(),
    };
    Ok(task
        .step(ManageUnit {
            name: proxy.unit(),
            files: vec![unit],
            reload: Some(Reload {
                file: config,
                test: format!("{command} {}", proxy.test_argument()),
            }),
            start: true,
        })
        .step(wait))
}

/// Returns a step that writes kubexm's CA as the initial CA of a proxy.
///
/// A proxy that checks API servers does not start without a CA, and the cluster's CA does not exist yet. The
/// checks fail with this CA, so the proxy uses every server without a check.
fn initial_ca(inputs: &Inputs<'_>, proxy: &dyn Proxy) -> Result<RunScript, DeployError> {
    let path = HostPath::parse(&proxy.ca_file())?;
    let title = format!("Give {} an initial CA", proxy.name());
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

/// Returns tasks that give the cluster's CA to proxies on `hosts`, after the first control plane has created
/// it. Proxies that check API servers then know which one is ready.
pub(super) fn verify(
    inputs: &Inputs<'_>,
    proxy: &dyn Proxy,
    hosts: &[&HostSpec],
) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first().filter(|_| proxy.checks_servers()) else {
        return Ok(Vec::new());
    };
    let cluster_ca: TaskValue<String> = TaskValue::new("load_balancer.cluster_ca");
    let read_ca = ProvideValue {
        title: "Read the cluster's CA".to_owned(),
        script: scripts::CLUSTER_CA,
        arguments: Vec::new(),
        input: None,
        parse: Box::new(|text| {
            if text.starts_with("-----BEGIN CERTIFICATE-----") {
                Ok(text.to_owned())
            } else {
                Err("admin.conf does not contain a CA certificate".into())
            }
        }),
        value: cluster_ca.clone(),
        only_reads: true,
        files: Vec::new(),
    };
    let authority = AUTHORITY
        .task(&first.name)
        .after([kubernetes::first_control_plane(first)])
        .step(read_ca);
    let mut tasks = vec![authority];
    for host in hosts {
        let path = HostPath::parse(&proxy.ca_file())?;
        let ca = cluster_ca.clone();
        let mut file = WriteFile::new(path.clone(), String::new());
        file.content = Content::Deferred {
            preview: "<the cluster's CA>\n".to_owned(),
            render: Arc::new(move || ca.require().cloned()),
        };
        let mut task = VERIFY
            .task(&host.name)
            .after([serving(&host.name)])
            .step(file)
            .step(reload(proxy, &path));
        task.requires.push(cluster_ca.name());
        tasks.push(task);
    }
    Ok(tasks)
}

/// Returns the step after which a proxy uses the present CA in its file.
fn reload(proxy: &dyn Proxy, path: &HostPath) -> RunScript {
    let title = format!(
        "Make {} verify API servers with the cluster's CA",
        proxy.name()
    );
    let reload = RunScript::new(
        "proxy reload",
        title,
        scripts::PROXY_RELOAD.verb("check"),
        scripts::PROXY_RELOAD.verb("reload"),
    );
    reload.arguments([proxy.unit().as_str(), path.as_str()])
}

/// Adds the steps after which a proxy verifies API servers with these CAs.
pub(super) fn trusting(proxy: &dyn Proxy, trusted: &str, task: Task) -> Result<Task, DeployError> {
    if !proxy.checks_servers() {
        return Ok(task);
    }
    let path = HostPath::parse(&proxy.ca_file())?;
    let file = WriteFile::new(path.clone(), trusted);
    Ok(task.step(file).step(reload(proxy, &path)))
}
