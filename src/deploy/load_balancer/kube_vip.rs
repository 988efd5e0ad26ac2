//! kube-vip as static pods on every control plane: one for the address of the endpoint, and one for the addresses of
//! services.
//!
//! kube-vip elects its leader by a lease in the cluster, so it needs a kubeconfig that may write leases. As systemd units,
//! Kubernetes has a user for it. With kubeadm, it uses `admin.conf`, which since Kubernetes 1.29 has no rights until
//! `kubeadm init` binds its group. The endpoint must answer before that. kube-vip therefore uses `super-admin.conf` first,
//! which only the first control plane has (<https://github.com/kube-vip/kube-vip/issues/684>).
//!
//! One kube-vip 0.9 for both kinds of addresses exits when it loses the lease of the endpoint. It then leaves the addresses
//! of services on the host, and another host gets them, too
//! (<https://github.com/kube-vip/kube-vip/blob/v0.9.1/pkg/manager/manager_arp.go>).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::interface::SERVE;
use super::proxy_pod::{MANIFESTS, SOURCES};
use super::{Balancer, Image, address, proxy, required_image};
use crate::kubernetes::kubeadm::restarts::Programs;
use crate::{DeployError, ETC, Inputs, kubernetes, os};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{About, StepError, Task, TaskId, TaskValue};
use kubexm_engine::steps::{Content, ProvideValue, RunScript, Undo, WaitFor, WriteFile};
use kubexm_render::load_balancer as template;
use kubexm_scripts::load_balancer::{KUBE_VIP_SERVICES, KUBE_VIP_SETTLED};
use kubexm_scripts::markers;
use kubexm_scripts::undo::KUBE_VIP_SERVICES_STOP;
use kubexm_types::{Digest, HostName, HostPath, InterfaceName, Version};

const IMAGE: Image = Image {
    component: "kube-vip",
    repository: "kube-vip/kube-vip",
};
const ADMIN: &str = "/etc/kubernetes/admin.conf";
const SUPER_ADMIN: &str = "/etc/kubernetes/super-admin.conf";
/// The kubeconfig of kube-vip where Kubernetes runs as systemd units.
const OWN: &str = "/etc/kubernetes/kube-vip.conf";
/// kube-vip connects to the API server of its own host by the name `kubernetes`, which is in each API
/// server's certificate. The first kubelets of 1.29 ignore `hostAliases` of static pods, so the pod mounts
/// this hosts file (<https://github.com/kube-vip/kube-vip/issues/692>).
const HOSTS: &str = "127.0.0.1 localhost kubernetes\n";
/// Environment variables with a port of the host. Only the pod for the endpoint gets those of the user.
const PORTS: [&str; 2] = ["prometheus_server", "health_check_port"];

/// kube-vip in ARP mode.
pub(super) struct KubeVip;

/// Prints a file.
const READ: &str = "cat \"$1\"";
/// The step that restarts its containers.
const RESTART: &str = "load balancer pod";
/// What the manifest of a pod with a kubeconfig of its own has before the digest of its certificate.
const CERTIFICATE: &str = "kubexm.io/certificate:";

/// The addresses that a pod assigns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Assigns {
    Endpoint,
    Services,
}

impl Assigns {
    /// Returns the pods of a cluster on each control plane.
    fn of(cluster: &Cluster) -> impl Iterator<Item = Self> {
        let services = cluster.high_availability.kube_vip.services;
        std::iter::once(Self::Endpoint).chain(services.then_some(Self::Services))
    }

    /// Returns the name of the pod.
    fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "kube-vip",
            Self::Services => "kube-vip-services",
        }
    }

    /// Returns the name of the value with its manifest.
    fn manifest(self) -> &'static str {
        match self {
            Self::Endpoint => "load_balancer.kube_vip",
            Self::Services => "load_balancer.kube_vip_services",
        }
    }

    /// Returns `address:port` of the metrics.
    fn metrics(self) -> &'static str {
        match self {
            Self::Endpoint => "127.0.0.1:2112",
            Self::Services => "127.0.0.1:2113",
        }
    }
}

/// A kubeconfig on the host.
struct Kubeconfig {
    path: &'static str,
    /// The digest of its certificate; `None` if kubeadm writes it.
    certificate: Option<Digest>,
}

impl Kubeconfig {
    /// Returns a kubeconfig that kubeadm writes.
    fn of_kubeadm(path: &'static str) -> Self {
        Self {
            path,
            certificate: None,
        }
    }
}

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
        if inputs.cluster.is_control_plane(&host.name) {
            vec![proxy::serving(&host.name)]
        } else {
            Vec::new()
        }
    }

    fn is_static_pod(&self) -> bool {
        true
    }

    fn static_pods(&self, cluster: &Cluster) -> Vec<String> {
        Assigns::of(cluster)
            .map(|assigns| assigns.name().to_owned())
            .collect()
    }

    fn leaving(&self, cluster: &Cluster, task: Task) -> Result<Task, DeployError> {
        let port = cluster.control_plane_endpoint.port;
        Ok(task.step(address::leaving(address::endpoint(cluster)?, port)))
    }

    fn returning(&self, cluster: &Cluster, task: Task) -> Result<Task, DeployError> {
        Ok(task.step(address::returning(address::endpoint(cluster)?)))
    }

    /// A leader that ends removes the address and releases its lease, so that another control plane gets it at once.
    fn renewed(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        mut task: Task,
    ) -> Result<Task, DeployError> {
        let Some((text, certificate)) = kubernetes::kube_vip_kubeconfig(inputs, host)? else {
            let title = "Restart kube-vip, which reads its files only when it starts";
            let programs = Assigns::of(inputs.cluster);
            let programs = programs.map(|assigns| (assigns.name(), vec![ADMIN.to_owned()]));
            let programs = Programs(programs.collect());
            return Ok(programs.restart(RESTART, title, task).step(settled()));
        };
        task = task.step(WriteFile::secret(HostPath::parse(OWN)?, text));
        // Each pod follows its own manifest: a killed run may have changed only the first one.
        let mut programs = Vec::new();
        for assigns in Assigns::of(inputs.cluster) {
            let path = HostPath::parse(&format!("{MANIFESTS}/{}.yaml", assigns.name()))?;
            let (read, write) = with_certificate(assigns, &path, certificate);
            task = task.step(read).step(write);
            programs.push((assigns.name(), vec![path.to_string()]));
        }
        let programs = Programs(programs);
        Ok(programs.restarted(RESTART, task).step(settled()))
    }

    fn after_join(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        mut task: Task,
    ) -> Result<Task, DeployError> {
        if !inputs.cluster.is_control_plane(&host.name) {
            return Ok(task);
        }
        let mut kubeconfig = Kubeconfig::of_kubeadm(ADMIN);
        if let Some((text, certificate)) = kubernetes::kube_vip_kubeconfig(inputs, host)? {
            kubeconfig.path = OWN;
            kubeconfig.certificate = Some(certificate);
            task = task.step(WriteFile::secret(HostPath::parse(OWN)?, text));
        }
        let (find_interface, interface) = address::interface(inputs.cluster, host);
        let pod = |assigns| pod(inputs, host, assigns, MANIFESTS, &kubeconfig, &interface);
        let manifest = pod(Assigns::Endpoint)?;
        task = task.step(find_interface).step(manifest).step(settled());
        if inputs.cluster.high_availability.kube_vip.services {
            Ok(task
                .step(register_cleanup(inputs.cluster, host)?)
                .step(pod(Assigns::Services)?))
        } else {
            Ok(task.step(without_services(inputs.cluster, host)?))
        }
    }
}

fn serve(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let task = SERVE
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)])
        .step(address::register_cleanup(address::endpoint(
            inputs.cluster,
        )?))
        .step(WriteFile::new(hosts_file()?, HOSTS));
    let is_first = inputs.first().is_some_and(|first| first.name == host.name);
    if !is_first || !kubernetes::is_kubeadm(inputs.cluster) {
        return Ok(task);
    }
    let kubeconfig = if inputs.cluster.kubernetes.version < Version::new(1, 29, 0) {
        Kubeconfig::of_kubeadm(ADMIN)
    } else {
        Kubeconfig::of_kubeadm(SUPER_ADMIN)
    };
    let (find_interface, interface) = address::interface(inputs.cluster, host);
    let assigns = Assigns::Endpoint;
    let source = pod(inputs, host, assigns, SOURCES, &kubeconfig, &interface)?;
    Ok(task.step(find_interface).step(source))
}

/// Returns the steps after which the manifest on a host, which is otherwise as before, names the certificate of the
/// kubeconfig. The kubelet replaces the pod then.
fn with_certificate(
    assigns: Assigns,
    path: &HostPath,
    certificate: Digest,
) -> (ProvideValue<String>, WriteFile) {
    let (name, value) = (assigns.name(), TaskValue::new(assigns.manifest()));
    let line = format!("    {CERTIFICATE} \"{certificate}\"");
    let read = ProvideValue {
        title: format!("Read the manifest of {name}"),
        script: READ.into(),
        arguments: vec![path.to_string()],
        input: None,
        parse: Box::new(move |text| {
            let is_certificate = |line: &&str| line.trim_start().starts_with(CERTIFICATE);
            let former = text.lines().find(is_certificate);
            let former = former.ok_or_else(|| format!("the manifest has no {CERTIFICATE}"))?;
            Ok(text.replacen(former, &line, 1))
        }),
        value: value.clone(),
        only_reads: false,
        files: Vec::new(),
    };
    let mut file = WriteFile::new(path.clone(), String::new());
    file.content = Content::Deferred {
        preview: format!("<the present manifest of {name}, with another certificate>\n"),
        render: Arc::new(move || value.require().cloned()),
    };
    (read, file)
}

/// Returns the step that waits until the endpoint answers.
fn settled() -> WaitFor {
    WaitFor {
        title: "Wait until the endpoint answers through kube-vip".to_owned(),
        script: KUBE_VIP_SETTLED,
        arguments: Vec::new(),
        at_most: Duration::from_secs(300),
        diagnosis: "ip -o addr; tail -n 20 /var/log/pods/kube-system_kube-vip-*/*/*.log".into(),
        about: About::Other,
    }
}

/// Returns the step that writes a pod's manifest to a directory.
fn pod(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    assigns: Assigns,
    dir: &str,
    kubeconfig: &Kubeconfig,
    interface: &TaskValue<InterfaceName>,
) -> Result<WriteFile, DeployError> {
    let address = address::endpoint(inputs.cluster)?;
    let port = inputs.cluster.control_plane_endpoint.port;
    let image = required_image(inputs, &IMAGE)?.to_string();
    let hosts = hosts_file()?.to_string();
    let path = kubeconfig.path;
    let certificate = kubeconfig.certificate.map(|digest| digest.to_string());
    let env = inputs.cluster.high_availability.kube_vip.env.iter();
    let env: BTreeMap<String, String> = env
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .filter(|(name, _)| assigns == Assigns::Endpoint || !PORTS.contains(&name.as_str()))
        .collect();
    let text = move |interface: String| {
        let pod = template::KubeVip {
            name: assigns.name(),
            image: image.clone(),
            address: (assigns == Assigns::Endpoint).then(|| address.to_string()),
            prefix: address::prefix_length(address),
            port,
            api_server: format!("kubernetes:{port}"),
            interface,
            kubeconfig: path,
            certificate: certificate.clone(),
            hosts: hosts.clone(),
            metrics: assigns.metrics(),
            env: env.clone(),
        };
        kubexm_render::text("kube-vip pod", &pod)
    };
    let path = HostPath::parse(&format!("{dir}/{}.yaml", assigns.name()))?;
    let mut file = WriteFile::new(path, String::new());
    let interface = interface.clone();
    file.content = Content::Deferred {
        preview: text(address::interface_placeholder(inputs.cluster, host))?,
        render: Arc::new(move || {
            text(interface.require()?.to_string())
                .map_err(|error| StepError::Other(error.to_string().into()))
        }),
    };
    Ok(file)
}

/// Returns a step that records, before the pod runs, that a reset must remove the addresses of services.
fn register_cleanup(cluster: &Cluster, host: &HostSpec) -> Result<RunScript, DeployError> {
    let title = "Record the addresses of services for a reset";
    let step = RunScript::new("service addresses", title, markers::CHECK, markers::SET);
    let stop = ["stop".to_owned()].into_iter();
    let arguments = stop.chain(services_arguments(cluster, host)?);
    Ok(step
        .arguments(["service-addresses"])
        .undo(Undo::run(KUBE_VIP_SERVICES_STOP, arguments)))
}

/// Returns a step that ends the pod for services of an earlier install.
fn without_services(cluster: &Cluster, host: &HostSpec) -> Result<RunScript, DeployError> {
    let step = RunScript::new(
        "no service addresses",
        "Remove the addresses of services that kube-vip has assigned",
        KUBE_VIP_SERVICES.verb("check"),
        KUBE_VIP_SERVICES.verb("stop"),
    );
    Ok(step.arguments(services_arguments(cluster, host)?))
}

/// Returns the manifest of the pod for services, and the addresses that are not those of services.
fn services_arguments(cluster: &Cluster, host: &HostSpec) -> Result<[String; 3], DeployError> {
    let manifest = format!("{MANIFESTS}/{}.yaml", Assigns::Services.name());
    let endpoint = address::endpoint(cluster)?.to_string();
    Ok([manifest, endpoint, host.internal_address().to_string()])
}

fn hosts_file() -> Result<HostPath, DeployError> {
    Ok(HostPath::parse(&format!("{ETC}/kube-vip/hosts"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster, file_of, with_inputs};

    /// kube-vip asks the API server of its own host, and announces its address for that port.
    #[test]
    fn pods_use_the_port_of_the_api_server() {
        let balancer = "highAvailability: {type: kube-vip, kubeVip: {services: true}}";
        let sections =
            format!("{balancer}\ncontrolPlaneEndpoint: 192.0.2.10:8443\nnetwork: {{plugin: none}}");
        let cluster = cluster("apiServer: {port: 8443}", &sections);
        let image = format!("ghcr.io/{}:v1.0.4", IMAGE.repository);
        with_inputs(&cluster, &[&image], "", |inputs| {
            for (assigns, line) in [
                (Assigns::Endpoint, "- {name: port, value: \"8443\"}"),
                (
                    Assigns::Services,
                    "- {name: kubernetes_addr, value: \"kubernetes:8443\"}",
                ),
            ] {
                let path = format!("{MANIFESTS}/{}.yaml", assigns.name());
                let text = file_of(inputs, "node1", &path).unwrap();
                assert!(text.contains(line) && !text.contains("6443"), "{text}");
            }
        });
    }
}
