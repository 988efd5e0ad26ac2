//! A proxy as a static pod of the kubelet.

use std::net::SocketAddr;
use std::time::Duration;

use super::proxy::{Proxy, Settings};
use super::required_image;
use crate::{DeployError, Inputs};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{About, Task};
use kubexm_engine::steps::{WaitFor, WriteFile};
use kubexm_render::load_balancer as template;
use kubexm_scripts::load_balancer as scripts;
use kubexm_scripts::os::PORT_OPEN;
use kubexm_types::{Digest, HostPath};

/// Directory of static pods that the script of `kubeadm init` gives to the kubelet.
pub(super) const SOURCES: &str = "/etc/kubexm/static-pods";
/// The kubelet's directory of static pods.
pub(super) const MANIFESTS: &str = "/etc/kubernetes/manifests";

/// The static pod of a proxy.
pub(super) struct ProxyPod {
    pub(super) proxy: &'static dyn Proxy,
    /// `address:port` that it listens on.
    pub(super) bind: String,
    /// Where its host reaches it.
    pub(super) listen: SocketAddr,
    /// Whether it has a health check, for keepalived.
    pub(super) health: bool,
}

impl ProxyPod {
    /// Returns the name of the pod of a proxy.
    pub(super) fn name(proxy: &dyn Proxy) -> String {
        format!("kubexm-{}", proxy.name())
    }

    /// Returns the path of its manifest.
    pub(super) fn manifest(&self) -> Result<HostPath, DeployError> {
        let name = Self::name(self.proxy);
        Ok(HostPath::parse(&format!("{MANIFESTS}/{name}.yaml"))?)
    }

    /// Adds the steps that write its configuration, and the manifest for the script of `kubeadm init` on the first
    /// control plane.
    pub(super) fn prepare(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        let config = HostPath::parse(&self.proxy.config_file())?;
        let task = task.step(WriteFile::new(config, self.config(inputs)?));
        if inputs.first().is_none_or(|first| first.name != host.name) {
            return Ok(task);
        }
        let source = format!("{SOURCES}/{}.yaml", Self::name(self.proxy));
        Ok(task.step(WriteFile::new(HostPath::parse(&source)?, self.pod(inputs)?)))
    }

    /// Adds the steps after which the kubelet of a node runs it.
    pub(super) fn start(&self, inputs: &Inputs<'_>, task: Task) -> Result<Task, DeployError> {
        let name = Self::name(self.proxy);
        let wait = WaitFor {
            title: format!("Wait until {name} listens"),
            script: PORT_OPEN,
            arguments: vec![self.listen.ip().to_string(), self.listen.port().to_string()],
            at_most: Duration::from_secs(120),
            diagnosis: scripts::POD_DIAGNOSIS.with([name]),
            about: About::OwnKubelet,
        };
        let manifest = WriteFile::new(self.manifest()?, self.pod(inputs)?);
        Ok(task.step(manifest).step(wait))
    }

    fn config(&self, inputs: &Inputs<'_>) -> Result<String, DeployError> {
        let settings = Settings {
            bind: self.bind.clone(),
            run: "/tmp".to_owned(),
            health: self.health,
        };
        Ok(self.proxy.config(inputs.cluster, &settings)?)
    }

    fn pod(&self, inputs: &Inputs<'_>) -> Result<String, DeployError> {
        let mut command = vec![self.proxy.name().to_owned()];
        command.extend(self.proxy.arguments());
        let pod = template::ProxyPod {
            name: Self::name(self.proxy),
            proxy: self.proxy.name(),
            image: required_image(inputs, &self.proxy.image())?.to_string(),
            command,
            configuration: Digest::of(self.config(inputs)?.as_bytes()).to_string(),
            folder: self.proxy.dir(),
            listen: self.listen.ip().to_string(),
            port: self.listen.port(),
        };
        Ok(kubexm_render::text("proxy pod", &pod)?)
    }
}
