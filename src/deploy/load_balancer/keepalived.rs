//! keepalived with a proxy, on the hosts of the role `loadbalancer`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU8;
use std::sync::Arc;

use super::interface::SERVE;
use super::proxy::{self, Proxy};
use super::proxy_pod::ProxyPod;
use super::{Balancer, Image, address};
use crate::{DeployError, ETC, Inputs, controller_file, os};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::{
    Cluster, HostSpec, KeepalivedSettings, LoadBalancer, PasswordSource, ProxyRun,
};
use kubexm_config::ports;
use kubexm_engine::plan::{StepError, Task, TaskId};
use kubexm_engine::steps::{Content, ManageUnit, Reload, RunScript, WriteFile};
use kubexm_render::load_balancer as template;
use kubexm_scripts::load_balancer::CHECK_PROXY;
use kubexm_types::{HostName, HostPath};

const UNIT: &str = "kubexm-keepalived.service";
const BINARY: &str = "/usr/sbin/keepalived";
const RUN: &str = "kubexm-keepalived";

/// Returns the path of the script of the user on hosts.
pub(crate) fn notify_path() -> Result<HostPath, DeployError> {
    Ok(HostPath::parse(&format!("{ETC}/keepalived/notify"))?)
}

/// keepalived configures the endpoint's address on one host at a time. The proxies run on all hosts.
pub(super) struct Keepalived {
    pub(super) proxy: &'static dyn Proxy,
    pub(super) run: ProxyRun,
}

impl Balancer for Keepalived {
    fn runs_on(&self, cluster: &Cluster, host: &HostName) -> bool {
        cluster.roles.load_balancer.contains(host)
    }

    fn packages(&self, format: PackageFormat) -> Vec<&'static str> {
        let mut packages = match self.run {
            ProxyRun::Systemd => self.proxy.packages(format),
            ProxyRun::StaticPod => Vec::new(),
        };
        packages.push("keepalived");
        packages
    }

    fn units(&self) -> Vec<String> {
        match self.run {
            ProxyRun::Systemd => vec![self.proxy.unit(), UNIT.to_owned()],
            ProxyRun::StaticPod => vec![UNIT.to_owned()],
        }
    }

    fn services(&self) -> Vec<&'static str> {
        match self.run {
            ProxyRun::Systemd => vec![self.proxy.name(), "keepalived"],
            ProxyRun::StaticPod => vec!["keepalived"],
        }
    }

    fn image(&self) -> Option<Image> {
        self.is_static_pod().then(|| self.proxy.image())
    }

    fn is_static_pod(&self) -> bool {
        self.run == ProxyRun::StaticPod
    }

    fn static_pods(&self, _: &Cluster) -> Vec<String> {
        let pod = self.is_static_pod().then(|| ProxyPod::name(self.proxy));
        pod.into_iter().collect()
    }

    fn after_join(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        if self.is_static_pod() && self.runs_on(inputs.cluster, &host.name) {
            self.pod(inputs.cluster)?.start(inputs, task)
        } else {
            Ok(task)
        }
    }

    fn tasks(&self, inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
        let cluster = inputs.cluster;
        let address = address::endpoint(cluster)?;
        let names = cluster.roles.load_balancer.iter();
        let hosts: Vec<&HostSpec> = names.filter_map(|name| cluster.host(name)).collect();
        let router_id = router_id(&cluster.high_availability.kind, address);
        let mut tasks = Vec::new();
        let mut before = None;
        for host in &hosts {
            let task = SERVE.task(&host.name).after([os::PREPARE.id(&host.name)]);
            // Clients use the endpoint of a cluster that exists: one host at a time may restart what serves it.
            let task = task.after(before.filter(|_| inputs.cluster_exists()));
            before = Some(task.id());
            let task = match self.run {
                ProxyRun::Systemd => {
                    proxy::serve(inputs, task, self.proxy, bind(cluster, address), true)?
                }
                ProxyRun::StaticPod => self.pod(cluster)?.prepare(inputs, host, task)?,
            };
            tasks.push(self.add_keepalived(inputs, task, host, &hosts, (address, router_id))?);
        }
        Ok(tasks)
    }

    fn tasks_before_join(&self, inputs: &Inputs<'_>, _: &HostSpec) -> Vec<TaskId> {
        let balancers = inputs.cluster.roles.load_balancer.iter();
        balancers.map(proxy::serving).collect()
    }
}

/// Returns where proxies listen: on all addresses, because only one host at a time has that of the endpoint.
fn bind(cluster: &Cluster, address: IpAddr) -> String {
    let all: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(all, cluster.control_plane_endpoint.port).to_string()
}

impl Keepalived {
    fn pod(&self, cluster: &Cluster) -> Result<ProxyPod, DeployError> {
        let address = address::endpoint(cluster)?;
        let loopback: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        Ok(ProxyPod {
            proxy: self.proxy,
            bind: bind(cluster, address),
            listen: SocketAddr::new(loopback, cluster.control_plane_endpoint.port),
            health: true,
        })
    }

    /// Adds keepalived to a host's task.
    fn add_keepalived(
        &self,
        inputs: &Inputs<'_>,
        task: Task,
        host: &HostSpec,
        hosts: &[&HostSpec],
        (address, virtual_router_id): (IpAddr, u8),
    ) -> Result<Task, DeployError> {
        let path = |name: &str| HostPath::parse(&format!("{ETC}/keepalived/{name}"));
        let (config, check) = (path("keepalived.conf")?, path("check")?);
        let unit = HostPath::parse(&format!("/etc/systemd/system/{UNIT}"))?;
        let mut check_file = WriteFile::new(check.clone(), CHECK_PROXY.text);
        check_file.mode = 0o755;
        let service = template::KeepalivedService {
            binary: BINARY.to_owned(),
            config: config.to_string(),
            run: RUN.to_owned(),
            proxy: self.proxy.unit(),
        };
        let (find_interface, interface) = address::interface(inputs.cluster, host);
        let settings = &inputs.cluster.high_availability.keepalived;
        let notify = settings.notify_script.as_deref();
        let notify = notify.map(controller_file::read).transpose()?;
        let notify_path = notify_path()?;
        let password = settings.password.as_ref();
        let password = password.map(PasswordSource::read).transpose()?;
        if let Some(password) = &password
            && !KeepalivedSettings::is_password(&password.0)
        {
            return Err(DeployError::KeepalivedPassword);
        }
        let has_password = password.is_some();
        let render_with = {
            let (priority, extra) = (
                settings.priority(&host.name),
                settings.extra_config.trim_end().to_owned(),
            );
            let decrease = settings.decrease(&inputs.cluster.roles.load_balancer);
            let notify = notify.as_ref().map(|_| notify_path.to_string());
            let check = format!("{check} {}", ports::PROXY_HEALTH);
            let host = host.clone();
            let others = hosts.iter().filter(|other| other.name != host.name);
            let peers: Vec<String> = others.map(|o| o.internal_address().to_string()).collect();

            move |interface: String| {
                let config = template::Keepalived {
                    host: host.name.to_string(),
                    interface,
                    virtual_router_id,
                    source: host.internal_address().to_string(),
                    peers: peers.clone(),
                    address: format!("{address}/{}", address::prefix_length(address)),
                    check: check.clone(),
                    priority,
                    decrease,
                    password: password.as_ref().map(|password| password.0.clone()),
                    notify: notify.clone(),
                    extra: extra.clone(),
                };
                kubexm_render::text("keepalived configuration", &config)
            }
        };
        let mut config_file = if has_password {
            WriteFile::secret(config.clone(), String::new())
        } else {
            WriteFile::new(config.clone(), String::new())
        };
        config_file.content = Content::Deferred {
            preview: render_with(address::interface_placeholder(inputs.cluster, host))?,
            render: Arc::new(move || {
                render_with(interface.require()?.to_string())
                    .map_err(|error| StepError::Other(error.to_string().into()))
            }),
        };
        let mut files = vec![check, unit.clone()];
        let task = match notify {
            Some(text) => {
                files.push(notify_path.clone());
                let mut file = WriteFile::new(notify_path, text);
                file.mode = 0o755;
                task.step(file)
            }
            None => task,
        };
        Ok(task
            .step(address::register_cleanup(address))
            .step(find_interface)
            .step(check_file)
            .step(config_file)
            .step(WriteFile::new(
                unit,
                kubexm_render::text("keepalived unit", &service)?,
            ))
            .step(ManageUnit {
                name: UNIT.to_owned(),
                files,
                reload: Some(Reload {
                    test: format!("{BINARY} --config-test --use-file={config}"),
                    file: config,
                }),
                start: true,
            }))
    }
}

/// Returns the step after which keepalived on another host has the address. It must still be a peer of this one: keepalived
/// announces to its peers that it ends.
pub(super) fn ceding(address: IpAddr) -> RunScript {
    let title = format!("Let another load balancer have {address}");
    let (check, stop) = (
        "! systemctl is-active --quiet \"$1\" || { echo runs; exit 1; }",
        "systemctl stop \"$1\"",
    );
    RunScript::new("keepalived leaves", title, check, stop).arguments([UNIT])
}

/// Returns the VRRP router id: the user's number, or the last byte of the address.
///
/// It must be the same on all hosts of this group. Other groups may use the same number, because the hosts
/// use unicast.
pub(super) fn router_id(load_balancer: &LoadBalancer, address: IpAddr) -> u8 {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    let configured = match load_balancer {
        LoadBalancer::Holder {
            virtual_router_id, ..
        } => *virtual_router_id,
        _ => None,
    };
    configured.map_or(last.max(1), NonZeroU8::get)
}
