//! A proxy on every node, run by systemd.

use std::net::{Ipv4Addr, SocketAddr};

use super::Balancer;
use super::interface::SERVE;
use super::proxy::{self, Proxy};
use crate::{DeployError, Inputs, os};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Task, TaskId};
use kubexm_types::HostName;

/// A proxy on every node, for the programs of that node.
pub(super) struct Local {
    pub(super) proxy: &'static dyn Proxy,
}

impl Balancer for Local {
    fn runs_on(&self, cluster: &Cluster, host: &HostName) -> bool {
        cluster.is_node(host)
    }

    fn packages(&self, format: PackageFormat) -> Vec<&'static str> {
        self.proxy.packages(format)
    }

    fn services(&self) -> Vec<&'static str> {
        vec![self.proxy.name()]
    }

    fn units(&self) -> Vec<String> {
        vec![self.proxy.unit()]
    }

    fn tasks(&self, inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
        let nodes = inputs.cluster.nodes();
        let mut tasks = Vec::new();
        for host in &nodes {
            let task = SERVE.task(&host.name).after([os::PREPARE.id(&host.name)]);
            let bind = listen_address(inputs.cluster).to_string();
            tasks.push(proxy::serve(inputs, task, self.proxy, bind, false)?);
        }
        Ok(tasks)
    }

    fn tasks_before_join(&self, _: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId> {
        vec![proxy::serving(&host.name)]
    }
}

/// Returns the address that a local proxy listens on: the endpoint, which is on loopback.
pub(super) fn listen_address(cluster: &Cluster) -> SocketAddr {
    let endpoint = &cluster.control_plane_endpoint;
    let address = endpoint.ip().unwrap_or(Ipv4Addr::LOCALHOST.into());
    SocketAddr::new(address, endpoint.port)
}
