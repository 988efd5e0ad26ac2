//! What must hold before an upgrade changes anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::Context;
use super::survey::{Permitted, Survey};
use kubexm_config::Cluster;
use kubexm_deploy::upgrade_path::Running;
use kubexm_host::facts::Setting;
use kubexm_host::{Command, Facts};
use kubexm_preflight::Finding;
use kubexm_scripts::kubernetes::API_SERVER_READY;
use kubexm_session::CommandError;
use kubexm_session::session::{self, Hosts};
use kubexm_types::{FindingKind, HostName};

impl Context<'_> {
    /// Returns the control planes whose API server is not ready. Because of an upgrade that `continues`, one may not be.
    pub(super) async fn unready(
        &self,
        hosts: &Hosts,
        continues: bool,
    ) -> Result<Vec<Finding>, CommandError> {
        let mut findings = Vec::new();
        for name in &self.cluster.roles.control_plane {
            let Some(host) = hosts.get(name) else {
                continue;
            };
            let command = Command::from_script(API_SERVER_READY, [""; 0]);
            let output = host.run(command.describe("ask the API server")).await?;
            if !output.success() {
                let what = format!("its API server is not ready: {}", output.complaint());
                let hint = "kubectl get --raw '/readyz?verbose' names the check that fails";
                findings.push(Finding::new(
                    FindingKind::ApiServer,
                    name,
                    !continues,
                    what,
                    hint,
                ));
            }
        }
        Ok(findings)
    }

    pub(super) fn findings(
        &self,
        survey: &Survey,
        first: &HostName,
        continues: bool,
    ) -> Vec<Finding> {
        let drain = &self.options.drain;
        let drains = self.drain().is_some();
        let permitted = Permitted {
            deletes_unmanaged: drain.deletes_unmanaged || !drains,
            ignores_budgets: drain.ignores_budgets || !drains,
        };
        survey.findings(
            first,
            &self.cluster.kubernetes.version,
            permitted,
            continues,
        )
    }
}

/// Returns the control plane that answers questions about the cluster.
pub(super) fn first_control_plane<'a>(
    cluster: &'a Cluster,
    hosts: &'a Hosts,
) -> Result<(&'a HostName, &'a Arc<dyn kubexm_host::Host>), CommandError> {
    session::first_control_plane(cluster, hosts)
        .ok_or_else(|| CommandError::defect("the cluster file has no control plane"))
}

/// Fails if a host is not a node of the cluster yet.
pub(super) fn all_nodes(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<(), CommandError> {
    let nodes = cluster.nodes().into_iter().map(|host| &host.name);
    let missing: Vec<&str> = nodes
        .filter(|name| facts.get(*name).is_some_and(|facts| !facts.is_node()))
        .map(HostName::as_str)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "cannot upgrade: these hosts are not nodes of the cluster yet: {}",
        missing.join(", ")
    ))
    .hint("upgrade with a cluster file without them, and add them with kubexm install afterwards"))
}

/// Returns the versions with which the programs of the cluster run.
pub(super) fn running(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    survey: &Survey,
) -> Result<Running, CommandError> {
    let mut running = Running::default();
    let refused = |name: &HostName, what: &str| {
        CommandError::step(format!("{name}: cannot see the version of {what}"))
            .hint("repair the node first; kubexm logs kubelet shows the log of its kubelet")
    };
    for name in &cluster.roles.control_plane {
        let found = facts.get(name);
        let found = found.and_then(|facts| facts.applied(Setting::Version).next());
        let version = found.and_then(|text| text.parse().ok());
        let version = version.ok_or_else(|| refused(name, "its API server"))?;
        running.api_servers.insert(name.clone(), version);
    }
    for host in cluster.nodes() {
        let node = survey.nodes.get(&host.name);
        let node = node.ok_or_else(|| refused(&host.name, "its kubelet"))?;
        running
            .kubelets
            .insert(host.name.clone(), node.kubelet.clone());
    }
    Ok(running)
}
