//! A proxy on every node, as a static pod of the kubelet.
//!
//! A kubelet that joins connects to the endpoint before it runs any pod. Until the proxy runs,
//! `systemd-socket-proxyd` listens on the endpoint and forwards to the first control plane. The first control
//! plane does not need this: kubeadm gives its kubelet a certificate, and the kubelet starts the proxy
//! together with the API server.

use std::time::Duration;

use super::interface::SERVE;
use super::local::listen_address;
use super::proxy::{self, Proxy};
use super::{Balancer, Image, required_image};
use crate::{DeployError, Inputs, os};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Task, TaskId};
use kubexm_engine::steps::{RunScript, Undo, WaitFor, WriteFile};
use kubexm_render::load_balancer as template;
use kubexm_scripts::load_balancer as scripts;
use kubexm_scripts::os::PORT_OPEN;
use kubexm_scripts::undo::JOIN_PROXY_STOP;
use kubexm_types::{Digest, HostName, HostPath};

/// Directory of static pods that the script of `kubeadm init` gives to the kubelet.
pub(super) const SOURCES: &str = "/etc/kubexm/static-pods";
/// The kubelet's directory of static pods.
pub(super) const MANIFESTS: &str = "/etc/kubernetes/manifests";

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
        vec![self.name()]
    }

    fn after_join(
        &self,
        inputs: &Inputs<'_>,
        _: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        let listen = listen_address(inputs.cluster);
        let (name, manifest) = (self.name(), self.manifest()?);
        let stop = RunScript::new(
            "join proxy away",
            format!("Stop the proxy for joins, which {name} replaces"),
            scripts::JOIN_PROXY.verb("gone"),
            scripts::JOIN_PROXY.verb("stop"),
        );
        let wait = WaitFor {
            title: format!("Wait until {name} listens"),
            script: PORT_OPEN,
            arguments: vec![listen.ip().to_string(), listen.port().to_string()],
            at_most: Duration::from_secs(120),
            diagnosis: scripts::POD_DIAGNOSIS.with([name]),
            hosts: Vec::new(),
        };
        Ok(task
            .step(stop)
            .step(WriteFile::new(manifest, self.pod(inputs)?))
            .step(wait))
    }
}

impl StaticPod {
    fn name(&self) -> String {
        format!("kubexm-{}", self.proxy.name())
    }

    fn manifest(&self) -> Result<HostPath, DeployError> {
        Ok(HostPath::parse(&format!(
            "{MANIFESTS}/{}.yaml",
            self.name()
        ))?)
    }

    fn serve(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
        let config = HostPath::parse(&self.proxy.config_file())?;
        let task = SERVE
            .task(&host.name)
            .after([os::PREPARE.id(&host.name)])
            .step(WriteFile::new(config, self.config(inputs)?));
        let Some(first) = inputs.first() else {
            return Ok(task);
        };
        if first.name == host.name {
            let source = HostPath::parse(&format!("{SOURCES}/{}.yaml", self.name()))?;
            return Ok(task.step(WriteFile::new(source, self.pod(inputs)?)));
        }
        let api_server = inputs.cluster.api_server(first);
        let forward = RunScript::new(
            "join proxy",
            format!(
                "Forward the endpoint to {} until {} runs",
                first.name,
                self.name()
            ),
            scripts::JOIN_PROXY.verb("check"),
            scripts::JOIN_PROXY.verb("start"),
        );
        let forward = forward.arguments(scripts::JoinProxy {
            address: listen_address(inputs.cluster).to_string(),
            server: api_server.to_string(),
            manifest: self.manifest()?.to_string(),
        });
        Ok(task.step(forward.undo(Undo::run(JOIN_PROXY_STOP, ["stop"]))))
    }

    fn config(&self, inputs: &Inputs<'_>) -> Result<String, DeployError> {
        let settings = proxy::Settings {
            bind: listen_address(inputs.cluster).to_string(),
            run: "/tmp".to_owned(),
            health: false,
        };
        Ok(self.proxy.config(inputs.cluster, &settings)?)
    }

    fn pod(&self, inputs: &Inputs<'_>) -> Result<String, DeployError> {
        let listen = listen_address(inputs.cluster);
        let mut command = vec![self.proxy.name().to_owned()];
        command.extend(self.proxy.arguments());
        let pod = template::ProxyPod {
            name: self.name(),
            proxy: self.proxy.name(),
            image: required_image(inputs, &self.proxy.image())?.to_string(),
            command,
            configuration: Digest::of(self.config(inputs)?.as_bytes()).to_string(),
            folder: self.proxy.dir(),
            listen: listen.ip().to_string(),
            port: listen.port(),
        };
        Ok(kubexm_render::text("proxy pod", &pod)?)
    }
}
