//! A node with systemd units in a phase of the rotation of authorities.

use std::collections::BTreeSet;

use super::files::{CA, CA_KEY, DIR, FRONT_PROXY_CA, SERVICE_ACCOUNT, SERVICE_ACCOUNT_KEY};
use super::{NO_CERTIFICATES, join};
use crate::kubernetes::kubelet_certificates::{SERVING, requested};
use crate::rotation_inputs::{RotationInputs, RotationPhase, SIGNER, without_signer_file};
use crate::{DeployError, Inputs};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{Kind, Step, Task};
use kubexm_engine::steps::{RunScript, WriteFile};
use kubexm_scripts::kubernetes::SIGNER as SIGNER_SCRIPT;
use kubexm_types::{Authority, HostPath};

/// Adds the steps of a node: those of a join that write files of the authorities, that restart the programs that read them,
/// and that wait for these programs.
pub(crate) fn rotated(
    inputs: &Inputs<'_>,
    given: &RotationInputs<'_>,
    host: &HostSpec,
    mut task: Task,
) -> Result<Task, DeployError> {
    let (Some(first), Some(pki)) = (inputs.first(), &inputs.certificates.kubernetes) else {
        return Err(DeployError::Unsupported(NO_CERTIFICATES));
    };
    let changes = Changes::of(given);
    let steps: Vec<Step> = join(inputs, pki, first, host)?
        .steps
        .into_iter()
        .filter(|step| changes.include(step))
        .collect();
    if steps.iter().all(|step| step.kind() == Kind::Wait) {
        return Ok(task);
    }
    let is_control_plane = inputs.cluster.is_control_plane(&host.name);
    if !is_control_plane || given.trusted_cas().is_none() {
        return Ok(steps.into_iter().fold(task, Task::step));
    }
    let own_file = WriteFile::new(HostPath::parse(SIGNER)?, pki.ca.clone());
    // Whenever the controller manager starts, the file of its flag has one certificate, which belongs to the key.
    let (before, with_key): (Vec<Step>, Vec<Step>) = match given.phase {
        RotationPhase::Trust => (vec![own_file.into(), signer(SIGNER).into()], Vec::new()),
        RotationPhase::Switch => (Vec::new(), vec![own_file.into()]),
        RotationPhase::Remove | RotationPhase::Cancel => (Vec::new(), vec![signer(CA).into()]),
    };
    task = before.into_iter().fold(task, Task::step);
    let mut with_key = Some(with_key);
    for step in steps {
        if step.id() == CONTROLLER_MANAGER {
            let own = with_key.take().unwrap_or_default();
            task = own.into_iter().fold(task, Task::step);
        }
        task = task.step(step);
    }
    Ok(match given.phase {
        RotationPhase::Trust | RotationPhase::Switch => task,
        RotationPhase::Remove | RotationPhase::Cancel => task.step(without_signer_file()),
    })
}

/// Adds the steps after which the kubelet of a node has certificates of the new CA. It requests them with the first certificate
/// in its kubeconfig.
pub(crate) fn rotated_kubelet(given: &RotationInputs<'_>, task: Task) -> Task {
    requested(given.id, &[SERVING], None, task)
}

/// The step that restarts the controller manager.
const CONTROLLER_MANAGER: &str = "unit kube-controller-manager.service";

fn signer(path: &str) -> RunScript {
    RunScript::new(
        "rotation signer",
        format!("Let the controller manager sign with {path}"),
        SIGNER_SCRIPT.verb("check"),
        SIGNER_SCRIPT.verb("apply"),
    )
    .arguments([path])
}

/// What a phase changes on a node.
struct Changes {
    /// The files that it writes.
    files: BTreeSet<String>,
    /// The programs that read one of them when they start.
    programs: BTreeSet<&'static str>,
}

impl Changes {
    fn of(given: &RotationInputs<'_>) -> Self {
        let switches = given.phase == RotationPhase::Switch;
        let mut changes = Self {
            files: BTreeSet::new(),
            programs: BTreeSet::new(),
        };
        for authority in given.authorities.keys() {
            changes.add(*authority, switches);
        }
        changes
    }

    /// Adds what has an authority, and if it `switches` also what the authority signs.
    fn add(&mut self, authority: Authority, switches: bool) {
        let pairs = |names: &[&str]| -> Vec<String> {
            let names = names.iter();
            names
                .flat_map(|name| ["crt", "key"].map(|end| format!("{DIR}/pki/{name}.{end}")))
                .collect()
        };
        let (trusted, signed): (Vec<String>, Vec<String>) = match authority {
            Authority::Kubernetes => {
                let names = [
                    "admin",
                    "controller-manager",
                    "scheduler",
                    "kubelet",
                    "kube-proxy",
                ];
                let kubeconfigs = names.map(|name| format!("{DIR}/{name}.conf"));
                let mut signed = pairs(&["apiserver", "apiserver-kubelet-client"]);
                signed.push(CA_KEY.to_owned());
                (
                    kubeconfigs.into_iter().chain([CA.to_owned()]).collect(),
                    signed,
                )
            }
            Authority::FrontProxy => (
                vec![FRONT_PROXY_CA.to_owned()],
                pairs(&["front-proxy-client"]),
            ),
            Authority::ServiceAccounts => (
                vec![SERVICE_ACCOUNT.to_owned()],
                vec![SERVICE_ACCOUNT_KEY.to_owned()],
            ),
            // The files of the API server as a client of etcd are written together with those of the members.
            Authority::Etcd | Authority::Registry => (Vec::new(), Vec::new()),
        };
        self.files.extend(trusted);
        if switches {
            self.files.extend(signed);
        }
        let (api_server, controllers) = ("kube-apiserver", "kube-controller-manager");
        match authority {
            Authority::Kubernetes => self.programs.extend([
                api_server,
                controllers,
                "kube-scheduler",
                "kubelet",
                "kube-proxy",
            ]),
            Authority::FrontProxy => self.programs.extend([api_server, controllers]),
            // The controller manager signs tokens in Secrets, and verifies none.
            Authority::ServiceAccounts if switches => {
                self.programs.extend([api_server, controllers]);
            }
            Authority::ServiceAccounts | Authority::Etcd => drop(self.programs.insert(api_server)),
            Authority::Registry => {}
        }
    }

    fn include(&self, step: &Step) -> bool {
        match step.kind() {
            Kind::Wait => true,
            Kind::Action => false,
            Kind::Ensure => {
                let files = step.files();
                let mut paths = files.iter().map(|file| file.path.as_str());
                let id = step.id();
                let unit = id
                    .strip_prefix("unit ")
                    .and_then(|unit| unit.strip_suffix(".service"));
                match unit {
                    Some(program) => self.programs.contains(program),
                    None => !files.is_empty() && paths.all(|path| self.files.contains(path)),
                }
            }
        }
    }
}
