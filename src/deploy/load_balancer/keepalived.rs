//! keepalived before a proxy, on the hosts of the role `loadbalancer`.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::sync::Arc;

use super::proxy::{self, Proxy};
use super::{Balancer, address};
use crate::{DeployError, ETC, Inputs, load_balancer, os};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::{Cluster, HostSpec, LoadBalancer};
use kubexm_engine::plan::{StepError, Task, TaskId};
use kubexm_engine::steps::{Content, ManageUnit, WriteFile};
use kubexm_render::load_balancer as template;
use kubexm_types::{HostName, HostPath};

const UNIT: &str = "kubexm-keepalived.service";
const BINARY: &str = "/usr/sbin/keepalived";
const RUN: &str = "kubexm-keepalived";

/// keepalived holds the endpoint's address on one host at a time; the proxies run on all.
pub(super) struct Keepalived {
    /// The program behind it.
    pub(super) proxy: &'static dyn Proxy,
}

impl Balancer for Keepalived {
    fn runs_on(&self, cluster: &Cluster, host: &HostName) -> bool {
        cluster.roles.load_balancer.contains(host)
    }

    fn packages(&self, format: PackageFormat) -> Vec<&'static str> {
        let mut packages = self.proxy.packages(format);
        packages.push("keepalived");
        packages
    }

    fn services(&self) -> Vec<&'static str> {
        vec![self.proxy.name(), "keepalived"]
    }

    fn tasks(&self, inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
        let cluster = inputs.cluster;
        let Some(address) = cluster.control_plane_endpoint.ip() else {
            return Err(DeployError::Unsupported("an endpoint without an address"));
        };
        let names = cluster.roles.load_balancer.iter();
        let hosts: Vec<&HostSpec> = names.filter_map(|name| cluster.host(name)).collect();
        // On all addresses: the endpoint's is on one host at a time.
        let bind = match address {
            IpAddr::V4(_) => format!("0.0.0.0:{}", cluster.control_plane_endpoint.port),
            IpAddr::V6(_) => format!("[::]:{}", cluster.control_plane_endpoint.port),
        };
        let router_id = router_id(&cluster.load_balancer, address);
        let mut tasks = Vec::new();
        for host in &hosts {
            let task = load_balancer::SERVE
                .task(&host.name)
                .after([os::PREPARE.id(&host.name)]);
            let task = proxy::serve(inputs, task, self.proxy, bind.clone(), true)?;
            tasks.push(self.hold(task, host, &hosts, (address, router_id))?);
        }
        tasks.extend(proxy::verify(inputs, self.proxy, &hosts)?);
        Ok(tasks)
    }

    fn ready(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId> {
        let balancers = &inputs.cluster.roles.load_balancer;
        proxy::ready(inputs, self.proxy, balancers, host)
    }
}

impl Keepalived {
    /// Adds keepalived to a host's task.
    fn hold(
        &self,
        task: Task,
        host: &HostSpec,
        hosts: &[&HostSpec],
        (address, virtual_router_id): (IpAddr, u8),
    ) -> Result<Task, DeployError> {
        let path = |name: &str| HostPath::parse(&format!("{ETC}/keepalived/{name}"));
        let (config, check) = (path("keepalived.conf")?, path("check")?);
        let unit = HostPath::parse(&format!("/etc/systemd/system/{UNIT}"))?;
        let check_text = template::Check {
            port: proxy::HEALTH_PORT,
        };
        let mut check_file = WriteFile::new(
            check.clone(),
            kubexm_render::text("keepalived's check", &check_text)?,
        );
        check_file.mode = 0o755;
        let service = template::KeepalivedService {
            binary: BINARY.to_owned(),
            config: config.to_string(),
            run: RUN.to_owned(),
            proxy: self.proxy.unit(),
        };
        let (ask, slot) = address::interface(host);
        let render_with = {
            let (host, check) = (host.clone(), check.to_string());
            let others = hosts.iter().filter(|other| other.name != host.name);
            let peers: Vec<String> = others.map(|o| o.internal_address.to_string()).collect();

            move |interface: String| {
                let config = template::Keepalived {
                    host: host.name.to_string(),
                    interface,
                    virtual_router_id,
                    source: host.internal_address.to_string(),
                    peers: peers.clone(),
                    address: format!("{address}/{}", address::bits(address)),
                    check: check.clone(),
                };
                kubexm_render::text("keepalived configuration", &config)
            }
        };
        let mut config_file = WriteFile::new(config.clone(), String::new());
        config_file.content = Content::Later {
            preview: render_with(address::interface_in_words(host))?,
            produce: Arc::new(move || {
                let interface = slot.get().ok_or(StepError::Missing(slot.name()))?;
                render_with(interface.clone()).map_err(|error| StepError::Other(error.to_string()))
            }),
        };
        Ok(task
            .step(address::note(address))
            .step(ask)
            .step(check_file)
            .step(config_file)
            .step(WriteFile::new(
                unit.clone(),
                kubexm_render::text("keepalived unit", &service)?,
            ))
            .step(ManageUnit {
                name: UNIT.to_owned(),
                files: vec![config, check, unit],
                start: true,
            }))
    }
}

/// The user's number, or the last byte of the address: it must be the same on all hosts of this
/// group, and between groups that speak from host to host it may be the same.
pub(super) fn router_id(load_balancer: &LoadBalancer, address: IpAddr) -> u8 {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    let given = match load_balancer {
        LoadBalancer::Holder {
            virtual_router_id, ..
        } => *virtual_router_id,
        _ => None,
    };
    given.map_or(last.max(1), NonZeroU8::get)
}
