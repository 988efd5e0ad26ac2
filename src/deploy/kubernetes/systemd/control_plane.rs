//! kube-apiserver, kube-controller-manager and kube-scheduler on a control plane.
//! <https://kubernetes.io/docs/reference/command-line-tools-reference/>

use std::collections::BTreeMap;
use std::time::Duration;

use super::files::{
    self, CA, CA_KEY, DIR, FRONT_PROXY_CA, Files, SERVICE_ACCOUNT, SERVICE_ACCOUNT_KEY,
};
use crate::kubernetes::{config, hardening, profile};
use crate::rotation_inputs::SIGNER;
use crate::{BIN, DeployError, Inputs, etcd, health, journal, site_files};
use kubexm_engine::plan::{About, Task};
use kubexm_pki::kubernetes::{ClusterPki, ControlPlanePki, FRONT_PROXY_CLIENT};

use kubexm_config::cluster::{Cluster, Component, HostSpec};
use kubexm_engine::steps::{ManageUnit, WaitFor, WriteFile};
use kubexm_render::kubernetes as template;
use kubexm_render::kubernetes::ControlPlaneService;
use kubexm_render::merge;
use kubexm_scripts::kubernetes::API_SERVER_READY;
use kubexm_types::HostPath;

const CONTROLLER_MANAGER: &str = "/etc/kubernetes/controller-manager.conf";
const SCHEDULER: &str = "/etc/kubernetes/scheduler.conf";
const SCHEDULER_CONFIG: &str = "/etc/kubernetes/scheduler.yaml";

/// A program of the control plane.
struct Program {
    name: &'static str,
    flags: BTreeMap<String, String>,
    notifies: bool,
    logs: Option<&'static str>,
    /// Files that only this program reads.
    files: Files,
    /// Files of other programs that it reads when it starts.
    shared_files: Vec<HostPath>,
}

impl Program {
    /// Returns the files that it reads when it starts, besides its unit.
    fn reads(&self, cluster: &Cluster) -> Vec<HostPath> {
        let mut files = self.files.paths();
        files.extend(self.shared_files.iter().cloned());
        files.extend(site_files::named_by_flags(cluster, &self.flags));
        files
    }
}

/// Adds the steps that run the three programs, and that write the administrator's kubeconfig.
pub(super) fn steps(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    own: &ControlPlanePki,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    let cluster = inputs.cluster;
    let admin = ("kubernetes-admin", &own.admin);
    let admin = files::kubeconfig(cluster, pki, &files::endpoint(cluster), admin)?;
    let path = HostPath::parse(&format!("{DIR}/admin.conf"))?;
    let task = task.step(WriteFile::secret(path, admin));
    let task = profile::write_files(inputs, task)?;
    let task = run(cluster, task, api_server(inputs, pki, own, host)?)?;
    let task = run(cluster, task, controller_manager(cluster, pki, own, host)?)?;
    let task = run(cluster, task, scheduler(cluster, pki, own, host)?)?;
    let task = task.step(WaitFor {
        title: "Wait until this API server is ready".to_owned(),
        script: API_SERVER_READY,
        arguments: Vec::new(),
        at_most: Duration::from_secs(120),
        diagnosis: journal("kube-apiserver", 30),
        about: About::Other,
    });
    // Before anything waits for what they do, such as pods.
    let units = ["kube-controller-manager.service", "kube-scheduler.service"];
    let checked = units.map(str::to_owned).into_iter();
    Ok(task.step(health::wait(
        "Wait until the controller manager and the scheduler are healthy".to_owned(),
        checked.chain(health::control_plane(cluster)).collect(),
        Duration::from_secs(120),
    )))
}

/// Adds the steps that write a program's files and unit, and that start the unit.
fn run(cluster: &Cluster, task: Task, program: Program) -> Result<Task, DeployError> {
    let binary = format!("{BIN}/{}", program.name);
    let service = ControlPlaneService {
        name: program.name,
        command: template::command(&binary, &program.flags),
        notifies: program.notifies,
        logs: program.logs,
    };
    let unit = format!("{}.service", program.name);
    let path = HostPath::parse(&format!("/etc/systemd/system/{unit}"))?;
    let mut reads = vec![path.clone(), HostPath::parse(&binary)?];
    reads.extend(program.reads(cluster));
    let text = kubexm_render::text("control plane unit", &service)?;
    let files = program.files.into_steps().into_iter();
    let task = files.fold(task, Task::step);
    let file = WriteFile {
        mode: cluster.security.settings_mode(),
        ..WriteFile::new(path, text)
    };
    Ok(task.step(file).step(ManageUnit {
        name: unit,
        files: reads,
        reload: None,
        start: true,
    }))
}

fn api_server(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    own: &ControlPlanePki,
    host: &HostSpec,
) -> Result<Program, DeployError> {
    let mut files = Files::default();
    files.readable(CA, &pki.trusted)?;
    files.pair("apiserver", &own.api_server)?;
    files.pair("apiserver-kubelet-client", &own.kubelet_client)?;
    files.readable(FRONT_PROXY_CA, &pki.front_proxy_ca)?;
    files.pair("front-proxy-client", &own.front_proxy_client)?;
    files.readable(SERVICE_ACCOUNT, &pki.service_account.public)?;
    files.secret(SERVICE_ACCOUNT_KEY, &pki.service_account.private)?;
    let policy = kubexm_render::text("audit policy", &template::AuditPolicy)?;
    files.readable(hardening::AUDIT_POLICY, &policy)?;
    let etcd = etcd::client_files(inputs)?.into_iter();
    Ok(Program {
        name: "kube-apiserver",
        flags: api_server_flags(inputs.cluster, host),
        notifies: true,
        logs: Some("kubernetes"),
        files,
        shared_files: etcd
            .map(|file| file.path)
            .chain(profile::read_at_start(inputs.cluster)?)
            .collect(),
    })
}

fn controller_manager(
    cluster: &Cluster,
    pki: &ClusterPki,
    own: &ControlPlanePki,
    host: &HostSpec,
) -> Result<Program, DeployError> {
    let mut files = Files::default();
    // The controller manager signs nodes' certificates. No other program on a host needs the CA's key.
    files.key(CA_KEY, &pki.ca_key)?;
    let signer = if pki.trusts_two() { SIGNER } else { CA };
    if signer != CA {
        files.readable(signer, &pki.ca)?;
    }
    let user = ("system:kube-controller-manager", &own.controller_manager);
    let server = files::own_server(cluster, host);
    files.kubeconfig(CONTROLLER_MANAGER, cluster, pki, &server, user)?;
    let shared_files = [CA, FRONT_PROXY_CA, SERVICE_ACCOUNT_KEY].map(HostPath::parse);
    Ok(Program {
        name: "kube-controller-manager",
        flags: controller_manager_flags(cluster, signer),
        notifies: false,
        logs: None,
        files,
        shared_files: shared_files.into_iter().collect::<Result<_, _>>()?,
    })
}

fn scheduler(
    cluster: &Cluster,
    pki: &ClusterPki,
    own: &ControlPlanePki,
    host: &HostSpec,
) -> Result<Program, DeployError> {
    let mut files = Files::default();
    let user = ("system:kube-scheduler", &own.scheduler);
    files.kubeconfig(
        SCHEDULER,
        cluster,
        pki,
        &files::own_server(cluster, host),
        user,
    )?;
    let config = template::Scheduler {
        kubeconfig: SCHEDULER.to_owned(),
    };
    let what = "scheduler configuration";
    let settings = &cluster.kubernetes.scheduler.extra_config;
    let config = merge::yaml(what, kubexm_render::text(what, &config)?, settings)?;
    files.readable(SCHEDULER_CONFIG, &config)?;
    Ok(Program {
        name: "kube-scheduler",
        flags: scheduler_flags(&cluster.kubernetes.scheduler),
        notifies: false,
        logs: None,
        files,
        shared_files: Vec::new(),
    })
}

/// Returns kubexm's flags, overridden by those of the user.
fn flags(
    defaults: impl IntoIterator<Item = (&'static str, String)>,
    component: &Component,
) -> BTreeMap<String, String> {
    let defaults = defaults.into_iter();
    let mut flags: BTreeMap<String, String> = defaults
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    flags.extend(config::flags(component));
    flags
}

/// Returns the flags of the API server. All versions from 1.28 to 1.36 support them. `enable-aggregator-routing` is not one
/// of them: kube-proxy runs on every control plane, so that an API server reaches the addresses of services.
fn api_server_flags(cluster: &Cluster, host: &HostSpec) -> BTreeMap<String, String> {
    let kubernetes = &cluster.kubernetes;
    let pki = |name: &str| format!("{DIR}/pki/{name}");
    let defaults = [
        ("advertise-address", host.internal_address().to_string()),
        ("allow-privileged", "true".to_owned()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("client-ca-file", CA.to_owned()),
        ("enable-admission-plugins", "NodeRestriction".to_owned()),
        (
            "kubelet-client-certificate",
            pki("apiserver-kubelet-client.crt"),
        ),
        ("kubelet-client-key", pki("apiserver-kubelet-client.key")),
        (
            "kubelet-preferred-address-types",
            "InternalIP,Hostname".to_owned(),
        ),
        ("proxy-client-cert-file", pki("front-proxy-client.crt")),
        ("proxy-client-key-file", pki("front-proxy-client.key")),
        ("requestheader-allowed-names", FRONT_PROXY_CLIENT.to_owned()),
        ("requestheader-client-ca-file", FRONT_PROXY_CA.to_owned()),
        (
            "requestheader-extra-headers-prefix",
            "X-Remote-Extra-".to_owned(),
        ),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("secure-port", cluster.api_server(host).port().to_string()),
        (
            "service-account-issuer",
            format!("https://kubernetes.default.svc.{}", kubernetes.dns_domain),
        ),
        ("service-account-key-file", SERVICE_ACCOUNT.to_owned()),
        (
            "service-account-signing-key-file",
            SERVICE_ACCOUNT_KEY.to_owned(),
        ),
        (
            "service-cluster-ip-range",
            cluster.network.service_cidr.to_string(),
        ),
        ("tls-cert-file", pki("apiserver.crt")),
        ("tls-private-key-file", pki("apiserver.key")),
    ];
    let etcd = etcd::client(cluster, std::slice::from_ref(&host.name)).map(|etcd| {
        [
            ("etcd-cafile", etcd.ca_file.to_owned()),
            ("etcd-certfile", etcd.cert_file.to_owned()),
            ("etcd-keyfile", etcd.key_file.to_owned()),
            ("etcd-servers", etcd.endpoints.join(",")),
        ]
    });
    // kubeadm also leaves the modes to such a file. The API server refuses both.
    let own = &kubernetes.api_server.component.extra_args;
    let has_file = own.contains_key("authorization-config");
    let defaults = defaults
        .into_iter()
        .filter(|(name, _)| !has_file || *name != "authorization-mode");
    let defaults = defaults.chain(etcd.into_iter().flatten());
    flags(
        defaults.chain(hardening::api_server(cluster)),
        &kubernetes.api_server.component,
    )
}

/// Returns the flags of the controller manager, which signs with the certificate in the file `signer`.
fn controller_manager_flags(cluster: &Cluster, signer: &str) -> BTreeMap<String, String> {
    let kubernetes = &cluster.kubernetes;
    let defaults = [
        ("allocate-node-cidrs", "true".to_owned()),
        ("authentication-kubeconfig", CONTROLLER_MANAGER.to_owned()),
        ("authorization-kubeconfig", CONTROLLER_MANAGER.to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("client-ca-file", CA.to_owned()),
        ("cluster-cidr", cluster.network.pod_cidr.to_string()),
        ("cluster-name", kubernetes.cluster_name.clone()),
        ("cluster-signing-cert-file", signer.to_owned()),
        ("cluster-signing-key-file", CA_KEY.to_owned()),
        ("kubeconfig", CONTROLLER_MANAGER.to_owned()),
        ("leader-elect", "true".to_owned()),
        ("requestheader-client-ca-file", FRONT_PROXY_CA.to_owned()),
        ("root-ca-file", CA.to_owned()),
        (
            "service-account-private-key-file",
            SERVICE_ACCOUNT_KEY.to_owned(),
        ),
        (
            "service-cluster-ip-range",
            cluster.network.service_cidr.to_string(),
        ),
        ("use-service-account-credentials", "true".to_owned()),
    ];
    flags(
        defaults
            .into_iter()
            .chain(hardening::controller_manager(cluster)),
        &kubernetes.controller_manager,
    )
}

fn scheduler_flags(component: &Component) -> BTreeMap<String, String> {
    let defaults = [
        ("authentication-kubeconfig", SCHEDULER.to_owned()),
        ("authorization-kubeconfig", SCHEDULER.to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("config", SCHEDULER_CONFIG.to_owned()),
    ];
    // The configuration file turns profiling off. With the flag, audits of the command line see it.
    flags(
        defaults.into_iter().chain(hardening::scheduler()),
        component,
    )
}

#[cfg(test)]
mod tests;
