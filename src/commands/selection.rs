//! Which hosts of a cluster a command works on.

use std::collections::BTreeSet;
use std::fmt;

use crate::CommandError;
use kubexm_config::Cluster;
use kubexm_types::{HostName, InvalidValue};

/// A role of hosts, as in `spec.roleGroups`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Control planes.
    ControlPlane,
    /// Workers.
    Worker,
    /// Members of etcd.
    Etcd,
    /// Hosts of the registries that kubexm runs.
    Registry,
    /// Hosts of the load balancer that kubexm runs.
    LoadBalancer,
}

impl Role {
    /// Every role, in the order of the cluster file.
    pub const ALL: [Self; 5] = [
        Self::ControlPlane,
        Self::Worker,
        Self::Etcd,
        Self::Registry,
        Self::LoadBalancer,
    ];

    /// Returns the name in `spec.roleGroups`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
            Self::Etcd => "etcd",
            Self::Registry => "registry",
            Self::LoadBalancer => "loadbalancer",
        }
    }

    /// Parses the name in `spec.roleGroups`.
    ///
    /// # Errors
    /// No role has this name.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let role = Self::ALL.into_iter().find(|role| role.name() == text);
        role.ok_or_else(|| InvalidValue::new("role", text, "expected a name of spec.roleGroups"))
    }

    fn hosts(self, cluster: &Cluster) -> &[HostName] {
        let roles = &cluster.roles;
        match self {
            Self::ControlPlane => &roles.control_plane,
            Self::Worker => &roles.worker,
            Self::Etcd => &roles.etcd,
            Self::Registry => &roles.registry,
            Self::LoadBalancer => &roles.load_balancer,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Hosts by their names and roles; without both, all hosts of the cluster.
#[derive(Debug, Clone, Default)]
pub struct HostSelection {
    /// Names of hosts.
    pub names: Vec<HostName>,
    /// Roles whose hosts are selected, too.
    pub roles: Vec<Role>,
}

impl HostSelection {
    /// Returns the cluster with the selected hosts alone.
    ///
    /// # Errors
    /// The cluster has no host of a name, or no host of a role.
    pub(crate) fn of(&self, mut cluster: Cluster) -> Result<Cluster, CommandError> {
        let selected = self.hosts(&cluster)?;
        cluster.hosts.retain(|host| selected.contains(&host.name));
        Ok(cluster)
    }

    /// Returns the names of the selected hosts.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(crate) fn hosts(&self, cluster: &Cluster) -> Result<BTreeSet<HostName>, CommandError> {
        let all = || cluster.hosts.iter().map(|host| &host.name);
        if self.names.is_empty() && self.roles.is_empty() {
            return Ok(all().cloned().collect());
        }
        let mut selected: BTreeSet<HostName> = BTreeSet::new();
        for name in &self.names {
            if cluster.host(name).is_none() {
                let all: Vec<&str> = all().map(HostName::as_str).collect();
                return Err(CommandError::Configuration(format!(
                    "'{name}' is not a host of the cluster file\nhint: its hosts are {}",
                    all.join(", ")
                )));
            }
            selected.insert(name.clone());
        }
        for role in &self.roles {
            let hosts = role.hosts(cluster);
            if hosts.is_empty() {
                return Err(CommandError::Configuration(format!(
                    "no host of the cluster has the role {role}\nhint: name hosts with --host, or another role"
                )));
            }
            selected.extend(hosts.iter().cloned());
        }
        Ok(selected)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::identity::tests::cluster;

    /// Selects hosts of a cluster of a control plane `node1` and a worker `node2`.
    fn selected(names: &[&str], roles: &[Role]) -> Result<String, String> {
        let selection = HostSelection {
            names: names
                .iter()
                .map(|name| HostName::parse(name).unwrap())
                .collect(),
            roles: roles.to_vec(),
        };
        let cluster = selection.of(cluster()).map_err(|error| error.to_string())?;
        let names = cluster.hosts.iter().map(|host| host.name.to_string());
        Ok(names.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn hosts_are_selected_by_names_and_roles_in_the_order_of_the_cluster_file() {
        assert_eq!(selected(&[], &[]).unwrap(), "node1 node2");
        assert_eq!(selected(&["node2"], &[]).unwrap(), "node2");
        assert_eq!(selected(&["node2", "node1"], &[]).unwrap(), "node1 node2");
        assert_eq!(selected(&[], &[Role::Worker]).unwrap(), "node2");
        let both = selected(&["node2"], &[Role::ControlPlane, Role::Etcd]);
        assert_eq!(both.unwrap(), "node1 node2");
    }

    #[test]
    fn host_that_the_cluster_does_not_have_is_refused() {
        insta::assert_snapshot!(selected(&["node4"], &[]).unwrap_err(), @"
        'node4' is not a host of the cluster file
        hint: its hosts are node1, node2
        ");
    }
}
