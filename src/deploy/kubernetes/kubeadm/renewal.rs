//! Certificates and kubeconfigs that kubeadm issues again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::init::node_config;
use super::restarts::after_renewal;
use crate::kubernetes::kubeconfig::kubeconfig_for_controller;
use crate::kubernetes::kubelet_certificates;
use crate::{DeployError, Inputs};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::Limit;
use kubexm_engine::plan::{StepError, Task, TaskValue};
use kubexm_engine::steps::{DeferredInput, ProvideValue, RunScript};
use kubexm_pki::kubernetes::node_user;
use kubexm_scripts::{Parameters, kubeadm};
use kubexm_types::HostName;

/// The step that writes the files of a control plane.
pub(crate) const CERTIFICATE_FILES: &str = "kubeadm certificate files";
/// How long kubeadm and the copies of its files may take.
const ISSUE: Limit = Limit::new(Duration::from_secs(300), "kubeadm");

/// Adds the steps that let kubeadm issue the files of a control plane, and that restart its programs. The certificates in
/// `named` get the names of the cluster file.
pub(crate) fn renewed(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    id: &str,
    named: &[&str],
    task: Task,
) -> Result<Task, DeployError> {
    Ok(after_renewal(task.step(issued(inputs, host, id, named)?)))
}

/// Returns the step that lets kubeadm issue the files of a control plane, once for each ID. The certificates in `named`, such as
/// `apiserver`, get the names of the cluster file; all others keep theirs.
pub(super) fn issued(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    id: &str,
    named: &[&str],
) -> Result<RunScript, DeployError> {
    let config = node_config(inputs, host)?;
    let arguments = kubeadm::Renew {
        id: id.to_owned(),
        config,
    };
    let named = named.iter().map(|name| format!("pki/{name}"));
    let files = RunScript::new(
        CERTIFICATE_FILES,
        "Issue the certificates and kubeconfigs of kubeadm again",
        kubeadm::RENEW.verb("check"),
        kubeadm::RENEW.verb("apply"),
    );
    Ok(files.arguments(arguments.and(named)).limit(ISSUE))
}

/// Returns the action that issues kubeconfigs for the kubelets of nodes.
pub(crate) fn kubelet_credentials(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    nodes: &BTreeSet<HostName>,
    value: TaskValue<BTreeMap<HostName, String>>,
) -> Result<ProvideValue<BTreeMap<HostName, String>>, DeployError> {
    let names = nodes.clone();
    let users = nodes.iter().map(node_user);
    Ok(ProvideValue {
        title: "Issue certificates for kubelets whose own ones have expired or are lost".to_owned(),
        script: kubeadm::KUBECONFIG,
        arguments: arguments(inputs, first, "system:nodes", users)?,
        input: None,
        parse: Box::new(move |text| {
            let found = names
                .iter()
                .map(|name| Ok((name.clone(), of_user(text, &node_user(name))?)));
            found.collect()
        }),
        value,
        only_reads: false,
        files: Vec::new(),
    })
}

/// Adds the steps that give the kubelet of a node a new certificate, and that remove other ones.
pub(crate) fn kubelet_begins_again(
    id: &str,
    host: &HostSpec,
    files: &[&str],
    credentials: &TaskValue<BTreeMap<HostName, String>>,
    mut task: Task,
) -> Task {
    let (name, value) = (host.name.clone(), credentials.clone());
    let kubeconfig: DeferredInput = Arc::new(move || {
        let of_node = value.require()?.get(&name);
        let text = of_node.ok_or(StepError::Missing("certificates.kubelets"))?;
        Ok(text.clone().into_bytes())
    });
    task.requires.push(credentials.name());
    kubelet_certificates::requested(id, files, Some(kubeconfig), task)
}

/// Returns the action that issues the kubeconfig of the group `system:masters` for the controller.
pub(crate) fn super_admin(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    value: &TaskValue<String>,
) -> Result<ProvideValue<String>, DeployError> {
    const USER: &str = "kubernetes-super-admin";
    let adapt = kubeconfig_for_controller(inputs, first);
    Ok(ProvideValue {
        title: "Issue super-admin.conf for this machine".to_owned(),
        script: kubeadm::KUBECONFIG,
        arguments: arguments(inputs, first, "system:masters", [USER.to_owned()])?,
        input: None,
        parse: Box::new(move |text| adapt(&of_user(text, USER)?)),
        value: value.clone(),
        only_reads: false,
        files: Vec::new(),
    })
}

fn arguments(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    group: &str,
    users: impl IntoIterator<Item = String>,
) -> Result<Vec<String>, DeployError> {
    let config = node_config(inputs, first)?;
    let arguments = [config, group.to_owned()].into_iter();
    Ok(arguments.chain(users).collect())
}

/// Returns the kubeconfig of a user from the output of the script. An error quotes nothing of it.
fn of_user(text: &str, user: &str) -> Result<String, String> {
    let start = format!("# {user}\n");
    let (_, rest) = text
        .split_once(&start)
        .ok_or_else(|| format!("kubeadm printed no kubeconfig of {user}"))?;
    let own = rest.split("\n# ").next().unwrap_or(rest);
    Ok(format!("{}\n", own.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfigs_of_several_users_are_separated() {
        let text = "# system:node:a\nkind: A\n\n# system:node:ab\nkind: AB\n";
        assert_eq!(of_user(text, "system:node:a").unwrap(), "kind: A\n");
        assert_eq!(of_user(text, "system:node:ab").unwrap(), "kind: AB\n");
        assert!(of_user(text, "system:node:c").is_err());
    }
}
