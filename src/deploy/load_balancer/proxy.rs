//! TCP proxies: their configuration, and how systemd runs them.

use super::interface::{Image, SERVE};
use crate::{DeployError, ETC, Inputs, journal};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::Cluster;
use kubexm_config::ports;
use kubexm_engine::plan::{About, Task, TaskId};
use kubexm_engine::steps::{ManageUnit, Reload, WaitFor, WriteFile};
use kubexm_render::RenderError;
use kubexm_render::load_balancer as template;
use kubexm_render::load_balancer::Server;
use kubexm_scripts::os::PORT_OPEN;
use kubexm_types::{HostName, HostPath};

/// Parameters of a proxy's configuration that do not depend on the cluster.
pub(super) struct Settings {
    /// `address:port` that it listens on.
    pub(super) bind: String,
    /// A directory that it may write to.
    pub(super) run: String,
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
        health,
    };
    let command = format!("/usr/sbin/{} {}", proxy.name(), proxy.arguments().join(" "));
    let service = template::ProxyService {
        title: proxy.name().to_owned(),
        command: command.clone(),
        reload_signal: proxy.reload_signal(),
        run: proxy.run(),
    };
    let task = task
        .step(WriteFile::new(
            config.clone(),
            proxy.config(inputs.cluster, &settings)?,
        ))
        .step(WriteFile::new(
            unit.clone(),
            kubexm_render::text("proxy unit", &service)?,
        ));
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
        about: About::Other,
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
