//! A proxy on every node, as a static pod of the kubelet.
//!
//! A kubelet that joins connects to the endpoint before it runs any pod. Until the proxy runs,
//! `systemd-socket-proxyd` listens on the endpoint and forwards to the first control plane. The first control
//! plane does not need this: kubeadm gives its kubelet a certificate, and the kubelet starts the proxy
//! together with the API server.

use super::interface::SERVE;
use super::local::listen_address;
use super::proxy::{self, Proxy};
use super::proxy_pod::ProxyPod;
use super::{Balancer, Image};
use crate::{DeployError, Inputs, os};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Task, TaskId};
use kubexm_engine::steps::{RunScript, Undo};
use kubexm_scripts::load_balancer as scripts;
use kubexm_scripts::undo::JOIN_PROXY_STOP;
use kubexm_types::HostName;

/// A static pod on every node, for the programs of that node.
pub(super) struct StaticPod {
    pub(super) proxy: &'static dyn Proxy,
}

impl Balancer for StaticPod {
    fn runs_on(&self, cluster: &Cluster, host: &HostName) -> bool {
        cluster.is_node(host)
    }

    fn image(&self) -> Option<Image> {
        Some(self.proxy.image())
    }

    fn tasks(&self, inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
        let nodes = inputs.cluster.nodes();
        nodes
            .into_iter()
            .map(|host| self.serve(inputs, host))
            .collect()
    }

    fn tasks_before_join(&self, _: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId> {
        vec![proxy::serving(&host.name)]
    }

    fn is_static_pod(&self) -> bool {
        true
    }

    fn static_pods(&self, _: &Cluster) -> Vec<String> {
        vec![ProxyPod::name(self.proxy)]
    }

    fn after_join(
        &self,
        inputs: &Inputs<'_>,
        _: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        let name = ProxyPod::name(self.proxy);
        let stop = RunScript::new(
            "join proxy away",
            format!("Stop the proxy for joins, which {name} replaces"),
            scripts::JOIN_PROXY.verb("gone"),
            scripts::JOIN_PROXY.verb("stop"),
        );
        self.pod(inputs.cluster).start(inputs, task.step(stop))
    }
}

impl StaticPod {
    fn pod(&self, cluster: &Cluster) -> ProxyPod {
        let listen = listen_address(cluster);
        ProxyPod {
            proxy: self.proxy,
            bind: listen.to_string(),
            listen,
            health: false,
        }
    }

    fn serve(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
        let pod = self.pod(inputs.cluster);
        let task = SERVE.task(&host.name).after([os::PREPARE.id(&host.name)]);
        let task = pod.prepare(inputs, host, task)?;
        let Some(first) = inputs.first().filter(|first| first.name != host.name) else {
            return Ok(task);
        };
        let api_server = inputs.cluster.api_server(first);
        let forward = RunScript::new(
            "join proxy",
            format!(
                "Forward the endpoint to {} until {} runs",
                first.name,
                ProxyPod::name(self.proxy)
            ),
            scripts::JOIN_PROXY.verb("check"),
            scripts::JOIN_PROXY.verb("start"),
        );
        let forward = forward.arguments(scripts::JoinProxy {
            address: pod.listen.to_string(),
            server: api_server.to_string(),
            manifest: pod.manifest()?.to_string(),
        });
        Ok(task.step(forward.undo(Undo::run(JOIN_PROXY_STOP, ["stop"]))))
    }
}
