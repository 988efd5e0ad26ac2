//! The TCP proxies: what they are configured with, and how systemd runs them.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::bundle::lock::PackageFormat;
use crate::deploy::{DeployError, ETC, Inputs, id, kubernetes};
use crate::plan::{Slot, StepError, Task, TaskId};
use crate::render::load_balancer::{self as template, Server};
use crate::render::{self, RenderError};
use crate::spec::cluster::{Cluster, HostSpec, Proxy};
use crate::spec::{HostName, HostPath};
use crate::steps::{Content, ManageUnit, Produce, RunScript, Undo, WaitFor, WriteFile};

/// Port on loopback at which a proxy tells keepalived how it is.
pub(super) const HEALTH_PORT: u16 = 7444;

/// What a proxy's configuration depends on besides the cluster.
pub(super) struct Setting {
    /// Where it listens.
    pub(super) bind: String,
    /// Folder that nginx may write to.
    pub(super) run: String,
    /// File of the CA that haproxy's checks go by.
    pub(super) ca: String,
    /// Whether somebody asks how it is.
    pub(super) health: bool,
}

impl Proxy {
    /// Its program, its package and its image go by this name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// OS packages with it.
    pub(super) fn packages(self, format: PackageFormat) -> Vec<&'static str> {
        match (self, format) {
            (Self::Haproxy, _) => vec!["haproxy"],
            (Self::Nginx, PackageFormat::Deb) => vec!["nginx", "libnginx-mod-stream"],
            (Self::Nginx, PackageFormat::Rpm) => vec!["nginx", "nginx-mod-stream"],
        }
    }

    /// The unit that kubexm runs it in.
    pub(super) fn unit(self) -> String {
        format!("kubexm-{}.service", self.name())
    }

    /// Folder of its configuration on hosts.
    pub(super) fn folder(self) -> String {
        format!("{ETC}/{}", self.name())
    }

    /// File of its configuration on hosts.
    pub(super) fn config_file(self) -> String {
        match self {
            Self::Haproxy => format!("{}/haproxy.cfg", self.folder()),
            Self::Nginx => format!("{}/nginx.conf", self.folder()),
        }
    }

    /// Its arguments.
    pub(super) fn arguments(self) -> Vec<String> {
        match self {
            Self::Haproxy => vec!["-W".to_owned(), "-f".to_owned(), self.config_file()],
            Self::Nginx => vec!["-c".to_owned(), self.config_file()],
        }
    }

    /// Its configuration.
    pub(super) fn config(
        self,
        cluster: &Cluster,
        setting: &Setting,
    ) -> Result<String, RenderError> {
        let servers = servers(cluster);
        let bind = setting.bind.clone();
        let health = setting.health.then(|| format!("127.0.0.1:{HEALTH_PORT}"));
        match self {
            Self::Haproxy => render::text(
                "haproxy configuration",
                &template::Haproxy {
                    bind,
                    ca: setting.ca.clone(),
                    servers,
                    health,
                },
            ),
            Self::Nginx => render::text(
                "nginx configuration",
                &template::Nginx {
                    run: setting.run.clone(),
                    bind,
                    servers,
                    health,
                },
            ),
        }
    }

    /// Folder under `/run` of its unit.
    fn run(self) -> String {
        format!("kubexm-{}", self.name())
    }

    /// Its CA file where systemd runs it.
    fn ca_file(self) -> String {
        format!("{}/ca.crt", self.folder())
    }
}

fn servers(cluster: &Cluster) -> Vec<Server> {
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
    id("load-balancer", "serve", host)
}

/// Tasks after which a host may become a node where proxies on `balancers` stand before the API
/// servers. Joins wait until the proxies check by the cluster's CA: their connections outlive no
/// reload.
pub(super) fn ready<'a>(
    inputs: &Inputs<'_>,
    proxy: Proxy,
    balancers: impl IntoIterator<Item = &'a HostName>,
    host: &HostSpec,
) -> Vec<TaskId> {
    let is_first = inputs.first().is_some_and(|first| first.name == host.name);
    let balancers = balancers.into_iter();
    match proxy {
        Proxy::Haproxy if !is_first => balancers
            .map(|name| id("load-balancer", "verify", name))
            .collect(),
        _ => balancers.map(serving).collect(),
    }
}

/// Adds to a task what has systemd run a proxy that listens at `bind`.
pub(super) fn serve(
    inputs: &Inputs<'_>,
    task: Task,
    proxy: Proxy,
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
        reload_signal: match proxy {
            Proxy::Haproxy => "USR2",
            Proxy::Nginx => "HUP",
        },
        run: proxy.run(),
    };
    let mut task = task
        .step(WriteFile::new(
            config.clone(),
            proxy.config(inputs.cluster, &setting)?,
        ))
        .step(WriteFile::new(
            unit.clone(),
            render::text("proxy unit", &service)?,
        ));
    if proxy == Proxy::Haproxy {
        task = task.step(first_ca(inputs, proxy)?);
    }
    let wait = WaitFor {
        title: format!("Wait until {} listens", proxy.name()),
        script: "bash -c \"exec 3<>/dev/tcp/127.0.0.1/$1\" 2>/dev/null".to_owned(),
        arguments: vec![match health {
            true => HEALTH_PORT.to_string(),
            false => port.to_string(),
        }],
        at_most: std::time::Duration::from_secs(30),
        diagnosis: format!("journalctl -u {} -n 20 --no-pager -o cat", proxy.unit()),
    };
    Ok(task
        .step(ManageUnit {
            name: proxy.unit(),
            files: vec![config, unit],
            start: true,
        })
        .step(wait))
}

const HAS_CA: &str = "[ -s \"$1\" ] || { echo 'is not there'; exit 1; }";
const PUT_CA: &str = "umask 022; cat >\"$1.kubexm-new\"; mv -f \"$1.kubexm-new\" \"$1\"";

/// A CA that signed no API server: haproxy wants one to start, and there is no other yet. Its checks
/// fail by it, and so it takes every server unchecked.
fn first_ca(inputs: &Inputs<'_>, proxy: Proxy) -> Result<RunScript, DeployError> {
    let path = HostPath::parse(&proxy.ca_file())?;
    let title = format!("Give {} a CA until the cluster has its own", proxy.name());
    let ca = inputs.certificates.ca.clone();
    let folders = Vec::new();
    Ok(RunScript::new("proxy ca", title, HAS_CA, PUT_CA)
        .arguments([path.as_str()])
        .input(Arc::new(move || Ok(ca.clone().into_bytes())))
        .undo(Undo::RemoveFile { path, folders }))
}

/// Prints the CA out of a kubeconfig.
const CLUSTER_CA: &str = "sed -n 's/^ *certificate-authority-data: *//p' \
    /etc/kubernetes/admin.conf | head -n 1 | base64 -d";

/// Reloads where the CA is another than at the last reload; connections live on.
const HAS_LOADED: &str = r#"
[ "$(sha256sum <"$2" | cut -d' ' -f1)" = "$(cat "/var/lib/kubexm/started/$1.ca" 2>/dev/null)" ] ||
  { echo "goes by another CA"; exit 1; }
"#;
const RELOAD: &str = r#"
systemctl reload "$1"
mkdir -p /var/lib/kubexm/started
sha256sum <"$2" | cut -d' ' -f1 >"/var/lib/kubexm/started/$1.ca"
"#;

/// Tasks that give proxies on `hosts` the cluster's CA, once there is one: from then on haproxy
/// knows which API server is ready. nginx checks nothing.
pub(super) fn verify(
    inputs: &Inputs<'_>,
    proxy: Proxy,
    hosts: &[&HostSpec],
) -> Result<Vec<Task>, DeployError> {
    let (Proxy::Haproxy, Some(first)) = (proxy, inputs.first()) else {
        return Ok(Vec::new());
    };
    let slot: Slot<String> = Slot::new("load_balancer.cluster_ca");
    let ask = Produce {
        title: "Ask for the cluster's CA".to_owned(),
        script: CLUSTER_CA.to_owned(),
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
    let mut asking = Task::new("load-balancer", "authority", &first.name)
        .after([kubernetes::first_control_plane(first)])
        .step(ask);
    asking.gives.push(slot.name());
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
        let reload = RunScript::new("proxy reload", title, HAS_LOADED, RELOAD);
        let mut task = Task::new("load-balancer", "verify", &host.name)
            .after([serving(&host.name)])
            .step(file)
            .step(reload.arguments([proxy.unit().as_str(), path.as_str()]));
        task.needs.push(slot.name());
        tasks.push(task);
    }
    Ok(tasks)
}
