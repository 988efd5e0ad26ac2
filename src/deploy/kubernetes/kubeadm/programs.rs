//! kubeadm, kubelet and kubectl on a node.

use std::sync::Arc;

use crate::kubernetes::{hardening, profile};
use crate::{BIN, DeployError, Inputs, binary, etcd, kubernetes, os, service_user};
use kubexm_config::cluster::{DEFAULT_ETCD_DATA_DIR, Etcd, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, RunScript, TrackNewDirs, WriteFile};
use kubexm_render::kubelet;
use kubexm_render::kubernetes::AuditPolicy;
use kubexm_types::HostPath;

const KUBELET: &str = "/usr/local/bin/kubelet";

/// Directories of the kubelet and of pods.
const DIRS: [&str; 7] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    hardening::AUDIT_LOGS,
    "/var/log/pods",
    "/var/log/containers",
    "/usr/libexec/kubernetes",
    // The pod of kube-proxy mounts this directory, and the kubelet creates it if it does not exist.
    "/lib/modules",
];

/// Returns the task that installs kubeadm, kubelet and kubectl on a node.
pub(super) fn programs(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let mut payloads = Vec::new();
    for name in ["kubeadm", "kubelet", "kubectl"] {
        let file = inputs.kubernetes_file(name, &host.name)?;
        payloads.push(binary(file, &format!("{BIN}/{name}"))?);
    }
    let mut dirs = DIRS.to_vec();
    // kubeadm creates the directory, and refuses one that is not empty.
    let data = match &inputs.cluster.etcd {
        Etcd::Kubeadm { data_dir, .. } => Some(data_dir.as_str()),
        _ => None,
    };
    let member = data.map(|data| format!("{data}/member"));
    dirs.extend(data);
    if data != Some(DEFAULT_ETCD_DATA_DIR) {
        dirs.extend(member.as_deref());
    }
    let dirs = TrackNewDirs::new("kubernetes-folders", "Kubernetes' directories", &dirs)?
        .created_by_programs(data);
    let needs_user = super::etcd::gives_data_to_user(inputs.cluster, host);
    let user = needs_user.then(|| service_user::create(etcd::USER, &dirs));
    let [unit, drop_in] = unit_files(inputs)?;
    let task = kubernetes::PROGRAMS
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)]);
    let task = user
        .into_iter()
        .fold(task, Task::step)
        .step(dirs)
        .step(InstallFiles {
            title: format!("Kubernetes {}", inputs.cluster.kubernetes.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(unit)
        .step(drop_in)
        .step(reload_unit())
        // kubeadm starts the kubelet.
        .step(ManageUnit {
            name: "kubelet.service".to_owned(),
            files: Vec::new(),
            reload: None,
            start: false,
        });
    if !inputs.cluster.is_control_plane(&host.name) {
        return Ok(task);
    }
    let policy = kubexm_render::text("audit policy", &AuditPolicy)?;
    let policy = WriteFile::new(HostPath::parse(hardening::AUDIT_POLICY)?, policy);
    let client_files = etcd::client_files(inputs)?;
    let files = client_files.into_iter().chain([policy]);
    profile::write_files(inputs, files.fold(task, Task::step))
}

/// Returns the step after which the next start of the kubelet uses these files. They do not restart a kubelet that runs.
fn reload_unit() -> RunScript {
    RunScript::new(
        "kubelet unit",
        "Let systemd read the kubelet's unit",
        "[ \"$(systemctl show -p NeedDaemonReload --value kubelet.service)\" != yes ] || { echo 'it has changed'; exit 1; }",
        "systemctl daemon-reload",
    )
}

/// Returns the kubelet's unit and kubeadm's drop-in for it.
fn unit_files(inputs: &Inputs<'_>) -> Result<[WriteFile; 2], DeployError> {
    let binary = || KUBELET.to_owned();
    let service = kubelet::Service {
        command: binary(),
        runtime: inputs.cluster.runtime.kind.properties().unit.to_owned(),
        own_flags: &[],
    };
    let unit = kubexm_render::text("kubelet unit", &service)?;
    let own_settings = &inputs.cluster.kubernetes.kubelet.extra_config;
    let drop_in = kubelet::DropIn {
        binary: binary(),
        finds_resolv_conf: own_settings.get("resolvConf").is_none(),
        own_flags: &kubelet::OWN_FLAGS,
    };
    let drop_in = kubexm_render::text("kubelet drop-in", &drop_in)?;
    let path = "/etc/systemd/system/kubelet.service";
    let drop_in_path = HostPath::parse(&format!("{path}.d/10-kubeadm.conf"))?;
    let files = [
        WriteFile::new(HostPath::parse(path)?, unit),
        WriteFile::new(drop_in_path, drop_in),
    ];
    Ok(files.map(|file| WriteFile {
        mode: 0o600,
        ..file
    }))
}
