//! The hosts of a command that works on the registries of a running cluster.

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_config::Cluster;
use kubexm_host::{Facts, HostError};
use kubexm_session::begun::MoveRecord;
use kubexm_session::identity::KnownCluster;
use kubexm_session::session::{self, Hosts};
use kubexm_session::{CommandError, Connection, FileError};
use kubexm_types::event::Events;
use kubexm_types::{HostName, WarningKind};

/// A cluster file, its state directory, and the hosts that answer.
pub(crate) struct Site<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) state: &'a Path,
    pub(crate) hosts: Hosts,
    pub(crate) facts: BTreeMap<HostName, Facts>,
    /// Unreachable hosts that the command needs: those with registries.
    pub(crate) lost: Vec<HostError>,
    /// Other unreachable hosts.
    pub(crate) others: Vec<HostError>,
}

/// The unreachable hosts.
#[derive(Default)]
pub(super) struct Unreachable {
    registries: Vec<HostError>,
    others: Vec<HostError>,
}

/// Fails if kubexm does not run the registry of a cluster.
pub(super) fn check_own(cluster: &Cluster, file: &Path) -> Result<(), CommandError> {
    if cluster.registry.external.is_none() {
        return Ok(());
    }
    let error = FileError::new(
        "work on the registries of",
        file,
        "spec.registry.type is external, so kubexm does not run a registry in the cluster",
    );
    let hint =
        "`kubexm registry seed` pushes images to this registry; its own tools list and remove them";
    Err(error.hint(hint).into())
}

impl Unreachable {
    /// Adds a host, and reports it.
    fn push(&mut self, cluster: &Cluster, name: &HostName, error: HostError, events: &Events) {
        events.warn(WarningKind::Host, &error);
        if cluster.roles.registry.contains(name) {
            self.registries.push(error)
        } else {
            self.others.push(error)
        }
    }
}

/// Connects to the hosts. Reports those that do not answer.
///
/// # Errors
/// No host with a registry can be reached.
pub(super) async fn connect(
    cluster: &Cluster,
    connection: &Connection,
    state: &Path,
    events: &Events,
) -> Result<(Hosts, Unreachable), CommandError> {
    let (hosts, errors) = connection.connect_each(cluster, state, events).await?;
    let mut unreachable = Unreachable::default();
    for (name, error) in errors {
        unreachable.push(cluster, &name, error, events);
    }
    let is_registry = |name: &HostName| cluster.roles.registry.contains(name);
    if cluster.registry.external.is_some() || hosts.keys().any(is_registry) {
        Ok((hosts, unreachable))
    } else {
        // The warnings name the causes, also those of other hosts.
        Err(CommandError::NoRegistry(cluster.roles.registry.clone()))
    }
}

impl<'a> Site<'a> {
    /// Collects the facts of the hosts.
    ///
    /// # Errors
    /// A host belongs to another cluster, or no registry is installed.
    pub(super) async fn of(
        cluster: &'a Cluster,
        state: &'a Path,
        hosts: Hosts,
        mut unreachable: Unreachable,
        events: &Events,
    ) -> Result<Self, CommandError> {
        let mut hosts = hosts;
        let (facts, errors) = session::gather_each(cluster, &hosts).await;
        for (name, error) in errors {
            hosts.remove(&name);
            unreachable.push(cluster, &name, error, events);
        }
        let known = KnownCluster::read(cluster, state)?;
        known.origins(cluster, &facts, events)?;
        let missing = cluster.roles.registry.iter().filter(|name| {
            let facts = facts.get(*name);
            facts.is_some_and(|facts| facts.registry_login.is_none())
        });
        let missing: Vec<&str> = missing.map(HostName::as_str).collect();
        if !missing.is_empty() {
            let hint = MoveRecord::load(cluster, state)?.map(|record| record.hint());
            return Err(CommandError::refused(format!(
                "no registry of kubexm is on {}",
                missing.join(", ")
            ))
            .hint(
                hint.unwrap_or_else(|| "run kubexm install, which installs it there".to_owned()),
            ));
        }
        Ok(Self {
            cluster,
            state,
            hosts,
            facts,
            lost: unreachable.registries,
            others: unreachable.others,
        })
    }

    /// Fails if a registry cannot be reached.
    pub(super) fn needs_all(&mut self, hint: &str) -> Result<(), CommandError> {
        if self.lost.is_empty() {
            Ok(())
        } else {
            Err(CommandError::HostsNeeded {
                hosts: std::mem::take(&mut self.lost),
                hint: hint.to_owned(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::example::cluster_of;
    use kubexm_session::ErrorKind;

    #[tokio::test]
    async fn registries_that_cannot_be_reached_are_one_error() {
        let roles = "control-plane: [node1], worker: [node2, node3], registry: [node1, node2]";
        let mut cluster = cluster_of(roles, "", "");
        for host in &mut cluster.hosts {
            // Such a host refuses connections.
            (host.address, host.port) = ("127.0.0.1".to_owned(), Some(1));
        }
        let state = tempfile::tempdir().unwrap();
        let (connection, events) = (Connection::default(), Events::silent());
        let refused = connect(&cluster, &connection, state.path(), &events).await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Host);
        insta::assert_snapshot!(refused, @"
        no host with a registry can be reached: node1, node2
        hint: start one of these hosts and its SSH server, or correct its address and its login in the cluster file
        ");
    }
}
