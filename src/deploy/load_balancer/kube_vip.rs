//! kube-vip as a static pod on every control plane.
//!
//! kube-vip elects its leader by a lease in the cluster, so it needs a kubeconfig that may write leases.
//! Since Kubernetes 1.29 `admin.conf` has no rights until `kubeadm init` binds its group. The endpoint must
//! answer before that. kube-vip therefore uses `super-admin.conf` first, which only the first control plane
//! has (<https://github.com/kube-vip/kube-vip/issues/684>).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::static_pod::{MANIFESTS, SOURCES};
use super::{Balancer, Image, address, proxy, required_image};
use crate::{DeployError, ETC, Inputs, load_balancer, os};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{StepError, Task, TaskId};
use kubexm_engine::steps::{Content, ProvideValue, WaitFor, WriteFile};
use kubexm_render::load_balancer as template;
use kubexm_scripts::load_balancer::KUBE_VIP_SETTLED;
use kubexm_types::{HostName, HostPath, Version};

const IMAGE: Image = Image {
    component: "kube-vip",
    repository: "kube-vip/kube-vip",
};
const ADMIN: &str = "/etc/kubernetes/admin.conf";
const SUPER_ADMIN: &str = "/etc/kubernetes/super-admin.conf";
/// kube-vip connects to the API server of its own host by the name `kubernetes`, which is in each API
/// server's certificate. The first kubelets of 1.29 ignore `hostAliases` of static pods, so the pod mounts
/// this hosts file (<https://github.com/kube-vip/kube-vip/issues/692>).
const HOSTS: &str = "127.0.0.1 localhost kubernetes\n";

/// kube-vip in ARP mode.
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

    fn tasks_before_join(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId> {
        match inputs.cluster.is_control_plane(&host.name) {
            true => vec![proxy::serving(&host.name)],
            false => Vec::new(),
        }
    }

    fn has_pod_before_init(&self) -> bool {
        true
    }

    fn after_join(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        if !inputs.cluster.is_control_plane(&host.name) {
            return Ok(task);
        }
        let (find_interface, manifest) = pod(inputs, host, MANIFESTS, ADMIN)?;
        Ok(task.step(find_interface).step(manifest).step(WaitFor {
            title: "Wait until the endpoint answers through kube-vip".to_owned(),
            script: KUBE_VIP_SETTLED,
            arguments: Vec::new(),
            at_most: Duration::from_secs(300),
            diagnosis: "ip -o addr; tail -n 20 /var/log/pods/kube-system_kube-vip-*/*/*.log".into(),
            hosts: Vec::new(),
        }))
    }
}

fn serve(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let task = load_balancer::SERVE
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)])
        .step(address::register_cleanup(endpoint_address(inputs.cluster)?))
        .step(WriteFile::new(hosts_file()?, HOSTS));
    if inputs.first().is_none_or(|first| first.name != host.name) {
        return Ok(task);
    }
    let kubeconfig = match inputs.cluster.kubernetes.version < Version::new(1, 29, 0) {
        true => ADMIN,
        false => SUPER_ADMIN,
    };
    let (find_interface, source) = pod(inputs, host, SOURCES, kubeconfig)?;
    Ok(task.step(find_interface).step(source))
}

/// Returns the step that finds the network interface, and the step that writes the pod's manifest to a
/// directory.
fn pod(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    dir: &str,
    kubeconfig: &'static str,
) -> Result<(ProvideValue<String>, WriteFile), DeployError> {
    let (find_interface, interface) = address::interface(inputs.cluster, host);
    let address = endpoint_address(inputs.cluster)?;
    let api_server_port = inputs.cluster.kubernetes.api_server_port;
    let image = required_image(inputs, &IMAGE)?.to_string();
    let hosts = hosts_file()?.to_string();
    let settings = inputs.cluster.balancers.kube_vip.clone();
    let env = settings.env.iter();
    let env: BTreeMap<String, String> = env
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let text = move |interface: String| {
        let pod = template::KubeVip {
            image: image.clone(),
            address: address.to_string(),
            prefix: address::prefix_length(address),
            port: api_server_port,
            interface,
            kubeconfig: kubeconfig.to_owned(),
            hosts: hosts.clone(),
            services: settings.services,
            env: env.clone(),
        };
        kubexm_render::text("kube-vip pod", &pod)
    };
    let path = HostPath::parse(&format!("{dir}/kube-vip.yaml"))?;
    let mut file = WriteFile::new(path, String::new());
    file.content = Content::Deferred {
        preview: text(address::interface_placeholder(inputs.cluster, host))?,
        render: Arc::new(move || {
            text(interface.require()?.clone()).map_err(|error| StepError::Other(error.to_string()))
        }),
    };
    Ok((find_interface, file))
}

fn hosts_file() -> Result<HostPath, DeployError> {
    Ok(HostPath::parse(&format!("{ETC}/kube-vip/hosts"))?)
}

fn endpoint_address(cluster: &Cluster) -> Result<IpAddr, DeployError> {
    let address = cluster.control_plane_endpoint.ip();
    address.ok_or(DeployError::Unsupported("an endpoint without an address"))
}
