//! kube-vip as a static pod on every control plane.
//!
//! It elects its leader by a lease in the cluster, so it needs a kubeconfig that may write one. Since
//! Kubernetes 1.29 `admin.conf` may do nothing before `kubeadm init` has bound its group, late in its
//! course, and the endpoint must answer before: until then `super-admin.conf` stands in, which only
//! the first control plane has
//! (<https://github.com/kube-vip/kube-vip/issues/684>).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;

use super::static_pod::{MANIFESTS, SOURCES};
use super::{Balancer, Image, address, proxy, required};
use crate::{DeployError, ETC, Inputs, kubernetes, load_balancer, os};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{StepError, Task, TaskId};
use kubexm_engine::steps::{Content, Produce, WaitFor, WriteFile};
use kubexm_render::filters;
use kubexm_scripts::load_balancer::KUBE_VIP_SETTLED;
use kubexm_types::{HostName, HostPath, Version};

const IMAGE: Image = Image {
    component: "kube-vip",
    repository: "kube-vip/kube-vip",
};
const ADMIN: &str = "/etc/kubernetes/admin.conf";
const SUPER_ADMIN: &str = "/etc/kubernetes/super-admin.conf";
/// kube-vip calls the API server of its own host by the name `kubernetes`, which is in each one's
/// certificate. Kubelets of 1.29's first releases lose a static pod's `hostAliases`
/// (<https://github.com/kube-vip/kube-vip/issues/692>); a file they do not.
const HOSTS: &str = "127.0.0.1 localhost kubernetes\n";

/// kube-vip, by ARP.
pub(super) struct KubeVip;

impl Balancer for KubeVip {
    fn runs_on(&self, cluster: &Cluster, host: &HostName) -> bool {
        cluster.is_control_plane(host)
    }

    fn image(&self) -> Option<Image> {
        Some(IMAGE)
    }

    fn tasks(&self, inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
        let names = inputs.cluster.roles.control_plane.iter();
        let hosts = names.filter_map(|name| inputs.cluster.host(name));
        hosts.map(|host| serve(inputs, host)).collect()
    }

    fn ready(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId> {
        match inputs.cluster.is_control_plane(&host.name) {
            true => vec![proxy::serving(&host.name)],
            false => Vec::new(),
        }
    }

    fn has_pod_before_init(&self) -> bool {
        true
    }

    fn settle(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        if !inputs.cluster.is_control_plane(&host.name) {
            return Ok(task);
        }
        let (ask, manifest) = pod(inputs, host, MANIFESTS, ADMIN)?;
        Ok(task.step(ask).step(manifest).step(WaitFor {
            title: "Wait until kube-vip has the endpoint answered".to_owned(),
            script: KUBE_VIP_SETTLED,
            arguments: Vec::new(),
            at_most: Duration::from_secs(300),
            diagnosis: "ip -o addr; tail -n 20 /var/log/pods/kube-system_kube-vip-*/*/*.log".into(),
        }))
    }
}

fn serve(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let task = load_balancer::SERVE
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)])
        .step(address::note(address_of(inputs.cluster)?))
        .step(WriteFile::new(hosts_file()?, HOSTS));
    if inputs.first().is_none_or(|first| first.name != host.name) {
        return Ok(task);
    }
    let kubeconfig = match inputs.cluster.kubernetes.version < Version::new(1, 29, 0) {
        true => ADMIN,
        false => SUPER_ADMIN,
    };
    let (ask, source) = pod(inputs, host, SOURCES, kubeconfig)?;
    Ok(task.step(ask).step(source))
}

/// The pod's manifest in a folder, and what must be asked before it can be written.
fn pod(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    folder: &str,
    kubeconfig: &'static str,
) -> Result<(Produce<String>, WriteFile), DeployError> {
    let (ask, slot) = address::interface(host);
    let address = address_of(inputs.cluster)?;
    let image = required(inputs, &IMAGE)?.to_string();
    let hosts = hosts_file()?.to_string();
    let text = move |interface: String| {
        let pod = Pod {
            image: image.clone(),
            address: address.to_string(),
            prefix: address::bits(address),
            port: kubernetes::BIND_PORT,
            interface,
            kubeconfig: kubeconfig.to_owned(),
            hosts: hosts.clone(),
        };
        kubexm_render::text("kube-vip pod", &pod)
    };
    let path = HostPath::parse(&format!("{folder}/kube-vip.yaml"))?;
    let mut file = WriteFile::new(path, String::new());
    file.content = Content::Later {
        preview: text(address::interface_in_words(host))?,
        produce: Arc::new(move || {
            let interface = slot.get().ok_or(StepError::Missing(slot.name()))?;
            text(interface.clone()).map_err(|error| StepError::Other(error.to_string()))
        }),
    };
    Ok((ask, file))
}

fn hosts_file() -> Result<HostPath, DeployError> {
    Ok(HostPath::parse(&format!("{ETC}/kube-vip/hosts"))?)
}

fn address_of(cluster: &Cluster) -> Result<IpAddr, DeployError> {
    let address = cluster.control_plane_endpoint.ip();
    address.ok_or(DeployError::Unsupported("an endpoint without an address"))
}

/// Static pod of kube-vip.
#[derive(Template)]
#[template(path = "load-balancer/kube-vip.yaml")]
struct Pod {
    /// Its image.
    image: String,
    /// The address to hold.
    address: String,
    /// Bits of the address's network: all of them.
    prefix: u8,
    /// The API servers' port.
    port: u16,
    /// The interface that the address comes up on.
    interface: String,
    /// The administrator's kubeconfig on the host.
    kubeconfig: String,
    /// Its own hosts file.
    hosts: String,
}
