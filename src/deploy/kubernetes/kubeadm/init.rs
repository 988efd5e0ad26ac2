//! `kubeadm init` on the first control plane.

use super::node::{LIMIT, file_modes, kubelet_runs, node, tasks_before_join};
use super::{etcd, join, patches, undo};
use crate::kubernetes::config;
use crate::kubernetes::config::{kube_proxy_config, kubelet_config};
use crate::kubernetes::hardening::{self, Flag};
use crate::kubernetes::profile;
use crate::kubernetes::serving::ApproveServing;
use crate::{DeployError, ETC, Inputs, kubernetes, load_balancer};
use kubexm_config::cluster::{Cluster, Component, ExtraVolume, HostSpec, Validity};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, RunToCompletion, WriteFile};
use kubexm_render::kubeadm as template;
use kubexm_render::kubeadm::{ComponentSection, Volume};
use kubexm_render::{RenderError, merge};
use kubexm_scripts::{Parameters, kubeadm};
use kubexm_types::HostPath;

/// What kubexm renders, in errors.
const WHAT: &str = "kubeadm init configuration";
/// The marker file of `kubeadm init`.
pub(super) const INIT: &str = "kubeadm-init";

/// Returns the marker file of the command that makes a host a node, or has made it one. Another control plane than the
/// one of `kubeadm init` may be the first one today.
pub(super) fn marker(inputs: &Inputs<'_>, host: &HostSpec) -> &'static str {
    let facts = inputs.host_facts(&host.name);
    let is_first = inputs.first().is_some_and(|first| first.name == host.name);
    match (facts.is_node, facts.is_initialized) {
        (_, true) => INIT,
        (true, false) => join::JOIN,
        (false, false) if is_first => INIT,
        (false, false) => join::JOIN,
    }
}

/// Returns the task that writes the configuration and runs `kubeadm init`.
pub(super) fn init(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Task, DeployError> {
    let path = HostPath::parse(&format!("{ETC}/kubeadm-init.yaml"))?;
    let task = kubernetes::INIT
        .task(&first.name)
        .after(tasks_before_join(first))
        .after(crate::etcd::healthy(inputs))
        .after(load_balancer::tasks_before_join(inputs, first))
        .step(WriteFile::new(
            path.clone(),
            init_config(inputs.cluster, first)?,
        ));
    let marker = marker(inputs, first);
    let task = patches::write(inputs.cluster, first, marker, task)?;
    let task = with_authorities(inputs, task).step(RunToCompletion {
        id: marker.to_owned(),
        title: "Run kubeadm init".to_owned(),
        command: kubeadm::NODE.verb("init"),
        input: None,
        cleanup: kubeadm::NODE.verb("clean-up"),
        arguments: kubeadm::Node {
            socket: undo::socket(inputs).to_owned(),
            etcd: etcd::member_directory(inputs.cluster, first),
            config: path.to_string(),
            static_pods: yes_or_no(load_balancer::is_static_pod(inputs.cluster)),
        }
        .arguments(),
        waits_for: "the kubelet and the control plane start",
        limit: LIMIT,
        undo: undo::undo(inputs, first),
    });
    let task = etcd::own_data(
        inputs.cluster,
        first,
        task.step(file_modes()).step(kubelet_runs()),
    );
    let task = load_balancer::after_join(inputs, first, task)?;
    // A failed join of another control plane runs a command in a pod of this node.
    Ok(task.step(ApproveServing::of(&[first])))
}

/// Adds the step that writes the authorities of a backup or of the site. `kubeadm init` keeps those that exist.
fn with_authorities(inputs: &Inputs<'_>, task: Task) -> Task {
    let Some(given) = inputs.certificates.authorities.clone() else {
        return task;
    };
    let step = RunScript::new(
        "kubeadm authorities",
        "Write the authorities that kubeadm does not create",
        kubeadm::AUTHORITIES.verb("check"),
        kubeadm::AUTHORITIES.verb("apply"),
    );
    let step = step.arguments(given.names.clone());
    task.step(step.input(given.archive.clone()))
}

/// Returns a flag as an argument of the script.
pub(super) fn yes_or_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

/// Returns the configuration of `kubeadm init`, with four documents.
pub(crate) fn init_config(cluster: &Cluster, first: &HostSpec) -> Result<String, RenderError> {
    configuration(cluster, first, &cluster.kubernetes.kubeadm.config.init)
}

/// Returns a configuration from which `kubeadm init` would generate the files that a node has: the control plane of
/// `kubeadm init` those of its init, and every other node those of its join.
pub(super) fn node_config(inputs: &Inputs<'_>, host: &HostSpec) -> Result<String, RenderError> {
    let cluster = inputs.cluster;
    if marker(inputs, host) == INIT {
        return init_config(cluster, host);
    }
    let registration = &cluster.kubernetes.kubeadm.config.join["nodeRegistration"];
    let own = if registration.is_object() {
        serde_json::json!({"nodeRegistration": registration})
    } else {
        serde_json::json!({})
    };
    configuration(cluster, host, &own)
}

fn configuration(
    cluster: &Cluster,
    first: &HostSpec,
    extra: &serde_json::Value,
) -> Result<String, RenderError> {
    let kubernetes = &cluster.kubernetes;
    let (api, list) = template::api_of(&kubernetes.version);
    let api_defaults = hardening::api_server(cluster);
    let mut api_server = section("apiServer", &kubernetes.api_server.component, api_defaults);
    let own = |name: &str, path: &str, read_only, kind| Volume {
        name: name.to_owned(),
        host_path: path.to_owned(),
        mount_path: path.to_owned(),
        read_only,
        kind: Some(kind),
    };
    let mut volumes = vec![
        own("kubexm-audit-policy", hardening::AUDIT_POLICY, true, "File"),
        own(
            "kubexm-audit-log",
            hardening::AUDIT_LOGS,
            false,
            "DirectoryOrCreate",
        ),
    ];
    if profile::has_files(cluster) {
        volumes.push(own("kubexm-security", profile::DIR, true, "Directory"));
    }
    api_server.volumes.splice(0..0, volumes);
    let sans = kubernetes.api_server.cert_sans.iter();
    api_server.cert_sans = sans.map(ToString::to_string).collect();
    let endpoint = &cluster.control_plane_endpoint;
    if let (true, Some(address)) = (
        cluster.high_availability.kind.holds_address(),
        endpoint.address,
    ) {
        // kubeadm adds the host name of the endpoint. Users may connect to its address as well.
        let address = address.to_string();
        if !api_server.cert_sans.contains(&address) {
            api_server.cert_sans.push(address);
        }
    }
    // kubeadm adds the address of the primary family.
    for address in cluster.network.first_service_addresses().skip(1) {
        let address = address.to_string();
        if !api_server.cert_sans.contains(&address) {
            api_server.cert_sans.push(address);
        }
    }
    let text = kubexm_render::text(
        WHAT,
        &template::Init {
            api,
            list,
            advertise_address: first.internal_address().to_string(),
            bind_port: cluster.api_server(first).port(),
            node: node(cluster, first),
            patches: patches::folder(cluster, first),
            version: format!("v{}", kubernetes.version),
            cluster_name: kubernetes.cluster_name.clone(),
            endpoint: cluster.control_plane_endpoint.to_string(),
            dns_domain: kubernetes.dns_domain.clone(),
            pod_cidr: cluster.network.pod_cidr.to_string(),
            service_cidr: cluster.network.service_cidr.to_string(),
            components: vec![
                api_server,
                section(
                    "controllerManager",
                    &kubernetes.controller_manager,
                    hardening::controller_manager(cluster),
                ),
                section("scheduler", &kubernetes.scheduler, hardening::scheduler()),
            ],
            skip_phases: kubernetes.kubeadm.skip_phases.init.clone(),
            validity: (kubernetes.validity != Validity::default()).then(|| template::Validity {
                hours: u32::from(kubernetes.validity.days) * 24,
                ca_hours: u32::from(kubernetes.validity.ca_days) * 24,
            }),
            etcd: etcd::section(cluster),
            kubelet: kubelet_config(cluster, None)?,
            kube_proxy: kube_proxy_config(cluster, None)?,
        },
    )?;
    let config = &kubernetes.kubeadm.config;
    merge::yaml_documents(WHAT, text, &[extra, &config.cluster])
}

fn volume(given: &ExtraVolume) -> Volume {
    Volume {
        name: given.name.to_string(),
        host_path: given.host_path.to_string(),
        mount_path: given.mount_path.to_string(),
        read_only: given.read_only,
        kind: given.kind,
    }
}

/// Returns the section of a control plane program, with defaults for flags that the user does not set.
fn section(section: &'static str, component: &Component, defaults: Vec<Flag>) -> ComponentSection {
    ComponentSection {
        section,
        args: config::flags(&hardening::with_defaults(component, defaults)),
        cert_sans: Vec::new(),
        volumes: component.extra_volumes.iter().map(volume).collect(),
    }
}
