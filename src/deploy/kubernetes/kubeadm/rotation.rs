//! A node of kubeadm in a phase of the rotation of authorities.

use std::collections::BTreeMap;

use super::renewal::{issued, kubelet_begins_again};
use super::restarts::{API_SERVER, Programs};
use crate::kubernetes::kubelet_certificates::SERVING;
use crate::rotation_inputs::{
    RotatedAuthority, RotationInputs, RotationPhase, SIGNER, without_signer_file,
};
use crate::{DeployError, Inputs, etcd};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{Task, TaskValue};
use kubexm_engine::steps::{RunScript, WriteFile};
use kubexm_scripts::kubeadm::ROTATE;
use kubexm_types::{Authority, HostName, HostPath};

const PKI: &str = "/etc/kubernetes/pki";
const CA: &str = "/etc/kubernetes/pki/ca.crt";

/// Returns the names of the files of an authority: what programs trust, and its key. `None` for one that kubeadm does not have.
fn names(authority: Authority) -> Option<(&'static str, &'static str)> {
    match authority {
        Authority::Kubernetes => Some(("ca.crt", "ca.key")),
        Authority::FrontProxy => Some(("front-proxy-ca.crt", "front-proxy-ca.key")),
        Authority::Etcd => Some(("etcd/ca.crt", "etcd/ca.key")),
        Authority::ServiceAccounts => Some(("sa.pub", "sa.key")),
        Authority::Registry => None,
    }
}

/// Adds the steps of a node.
pub(crate) fn rotated(
    inputs: &Inputs<'_>,
    given: &RotationInputs<'_>,
    host: &HostSpec,
    mut task: Task,
) -> Result<Task, DeployError> {
    if !inputs.cluster.is_control_plane(&host.name) {
        return match given.trusted_cas() {
            Some(trusted) => Ok(task
                .step(file(CA, 0o644, trusted)?)
                .step(kubeconfigs(trusted))),
            None => Ok(task),
        };
    }
    for (authority, own) in given.authorities {
        task = match authority {
            Authority::Kubernetes => kubernetes_ca(given.phase, own, task)?,
            other if given.is_of_kubeadm(*other) => authority_files(*other, own, task)?,
            _ => task,
        };
    }
    if given.issues() {
        task = task.step(issued(inputs, host, given.id, &[])?);
    }
    if let Some(trusted) = given.trusted_cas() {
        task = task.step(kubeconfigs(trusted));
    }
    let programs = programs(given);
    if !programs.is_empty() {
        let title = "Restart programs that read their files only when they start";
        task = Programs(programs).restart("rotation programs", title, task);
    }
    if given.trusted_cas().is_some() && !has_two(given.phase) {
        task = task.step(without_signer_file());
    }
    Ok(task)
}

/// Returns whether programs trust two authorities after a phase.
fn has_two(phase: RotationPhase) -> bool {
    matches!(phase, RotationPhase::Trust | RotationPhase::Switch)
}

/// Adds the steps for the files of the CA of Kubernetes. Whenever the controller manager starts, the file of its flag has one
/// certificate.
fn kubernetes_ca(
    phase: RotationPhase,
    own: &RotatedAuthority,
    task: Task,
) -> Result<Task, DeployError> {
    if has_two(phase) {
        let task = key(Authority::Kubernetes, own, task)?
            .step(file(SIGNER, 0o644, &own.present)?)
            .step(signer(SIGNER));
        return Ok(task.step(file(CA, 0o644, &own.trusted)?));
    }
    Ok(authority_files(Authority::Kubernetes, own, task)?.step(signer(CA)))
}

/// Adds the step that writes the key of an authority, if it is a new one.
fn key(authority: Authority, own: &RotatedAuthority, task: Task) -> Result<Task, DeployError> {
    let (Some((_, name)), Some(key)) = (names(authority), &own.key) else {
        return Ok(task);
    };
    let path = HostPath::parse(&format!("{PKI}/{name}"))?;
    Ok(task.step(WriteFile {
        removed_elsewhere: true,
        ..WriteFile::secret(path, key.as_str())
    }))
}

fn authority_files(
    authority: Authority,
    own: &RotatedAuthority,
    task: Task,
) -> Result<Task, DeployError> {
    let Some((public, _)) = names(authority) else {
        return Ok(task);
    };
    // As kubeadm writes them.
    let mode = match authority {
        Authority::ServiceAccounts => 0o600,
        _ => 0o644,
    };
    let task = key(authority, own, task)?;
    Ok(task.step(file(&format!("{PKI}/{public}"), mode, &own.trusted)?))
}

/// Returns the step for a file that `kubeadm reset` removes.
fn file(path: &str, mode: u32, text: &str) -> Result<WriteFile, DeployError> {
    Ok(WriteFile {
        mode,
        removed_elsewhere: true,
        ..WriteFile::new(HostPath::parse(path)?, text)
    })
}

fn step(id: &str, title: &str) -> RunScript {
    RunScript::new(id, title, ROTATE.verb("check"), ROTATE.verb("apply"))
}

fn signer(path: &str) -> RunScript {
    let title = format!("Let the controller manager sign with {path}");
    step("rotation signer", &title).arguments(["signer", path])
}

/// Returns the step after which the kubeconfigs of a node trust these CAs.
fn kubeconfigs(trusted: &str) -> RunScript {
    let title = "Write the CAs into kubeconfigs, and restart the kubelet";
    let step = step("rotation kubeconfigs", title);
    step.arguments(["kubeconfigs", trusted])
}

/// Returns the programs that must start after a phase has changed their files, in the order in which they end. Other files are
/// read while the programs run.
fn programs(given: &RotationInputs<'_>) -> Vec<(&'static str, Vec<String>)> {
    let rotates = |authority| given.authorities.contains_key(&authority);
    // The order of the two authorities in a file has no meaning for these programs.
    let changes_trust = given.phase != RotationPhase::Switch;
    let pki = |name: &str| format!("{PKI}/{name}");
    let mut programs: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let mut reads = |program, path: String| programs.entry(program).or_default().push(path);
    let (api_server, manager) = (API_SERVER, "kube-controller-manager");
    if rotates(Authority::Kubernetes) && changes_trust {
        // It verifies kubelets with this file.
        reads(api_server, pki("ca.crt"));
    }
    if rotates(Authority::Etcd) && changes_trust {
        if given.is_of_kubeadm(Authority::Etcd) {
            reads(api_server, pki("etcd/ca.crt"));
            reads("etcd", pki("etcd/ca.crt"));
        } else {
            reads(api_server, etcd::CLIENT_CA.to_owned());
        }
    }
    if rotates(Authority::ServiceAccounts) {
        reads(api_server, pki("sa.pub"));
        if given.phase == RotationPhase::Switch {
            reads(api_server, pki("sa.key"));
            reads(manager, pki("sa.key"));
        }
    }
    if given.issues() {
        // Without a file: it reads its new certificate while it runs, and must serve it before the next host changes.
        programs.entry(api_server).or_default();
    }
    let mut reads = |program, path: String| programs.entry(program).or_default().push(path);
    if rotates(Authority::Kubernetes) || given.issues() {
        reads(
            manager,
            "/etc/kubernetes/controller-manager.conf".to_owned(),
        );
        reads(
            "kube-scheduler",
            "/etc/kubernetes/scheduler.conf".to_owned(),
        );
    }
    if rotates(Authority::Kubernetes) {
        reads(manager, pki("ca.crt"));
    }
    // An API server whose etcd has ended could not answer.
    let order = [api_server, "etcd", manager, "kube-scheduler"];
    let all = order.into_iter();
    all.filter_map(|name| Some((name, programs.remove(name)?)))
        .collect()
}

/// Adds the steps after which the kubelet of a node has certificates of the new CA.
pub(crate) fn rotated_kubelet(
    given: &RotationInputs<'_>,
    host: &HostSpec,
    credentials: &TaskValue<BTreeMap<HostName, String>>,
    task: Task,
) -> Task {
    let task = kubelet_begins_again(given.id, host, &[SERVING], credentials, task);
    match given.trusted_cas() {
        Some(trusted) => task.step(kubeconfigs(trusted)),
        None => task,
    }
}
