//! Which hosts of a cluster a command works on.

use std::collections::BTreeSet;
use std::fmt;

use crate::CommandError;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
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

    /// Returns the hosts of the role. An empty role of a cluster file has the control planes, also if nothing of the role
    /// runs on them: then there are none.
    fn hosts(self, cluster: &Cluster) -> &[HostName] {
        let roles = &cluster.roles;
        let is_external = matches!(cluster.etcd, Etcd::External { .. });
        match self {
            Self::ControlPlane => &roles.control_plane,
            Self::Worker => &roles.worker,
            Self::Etcd if is_external => &[],
            Self::Etcd => &roles.etcd,
            Self::Registry => &roles.registry,
            Self::LoadBalancer if cluster.high_availability.kind.holds_address() => {
                &roles.load_balancer
            }
            Self::LoadBalancer => &[],
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
    pub fn of(&self, mut cluster: Cluster) -> Result<Cluster, CommandError> {
        let selected = self.hosts(&cluster)?;
        cluster.hosts.retain(|host| selected.contains(&host.name));
        Ok(cluster)
    }

    /// Returns the names of the selected hosts.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn hosts(&self, cluster: &Cluster) -> Result<BTreeSet<HostName>, CommandError> {
        let all = || cluster.hosts.iter().map(|host| &host.name);
        if self.names.is_empty() && self.roles.is_empty() {
            return Ok(all().cloned().collect());
        }
        let mut selected: BTreeSet<HostName> = BTreeSet::new();
        for name in &self.names {
            if cluster.host(name).is_none() {
                let all: Vec<&str> = all().map(HostName::as_str).collect();
                return Err(CommandError::configuration(format!(
                    "'{name}' is not a host of the cluster file"
                ))
                .hint(format!("its hosts are {}", all.join(", "))));
            }
            selected.insert(name.clone());
        }
        for role in &self.roles {
            let hosts = role.hosts(cluster);
            if hosts.is_empty() {
                return Err(CommandError::configuration(format!(
                    "no host of the cluster has the role {role}"
                ))
                .hint("name hosts with --host, or another role"));
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
    use crate::example::cluster;
    use kubexm_config::example::{ROLES, cluster_of};

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

    /// Selects the hosts of a role of a cluster.
    fn of_role(role: Role, cluster: &Cluster) -> Result<String, String> {
        let selection = HostSelection {
            names: Vec::new(),
            roles: vec![role],
        };
        let selected = selection
            .hosts(cluster)
            .map_err(|error| error.to_string())?;
        let names: Vec<&str> = selected.iter().map(HostName::as_str).collect();
        Ok(names.join(" "))
    }

    #[test]
    fn role_etcd_has_the_hosts_that_run_a_member() {
        let mut cluster = cluster_of(ROLES, "", "");
        assert_eq!(of_role(Role::Etcd, &cluster).unwrap(), "node1");
        cluster.etcd = Etcd::External {
            endpoints: vec!["https://192.0.2.50:2379".to_owned()],
            ca_file: "ca.crt".into(),
            cert_file: "client.crt".into(),
            key_file: "client.key".into(),
        };
        insta::assert_snapshot!(of_role(Role::Etcd, &cluster).unwrap_err(), @"
        no host of the cluster has the role etcd
        hint: name hosts with --host, or another role
        ");
        let roles = format!("{ROLES}, etcd: [node2]");
        let cluster = cluster_of(&roles, "", "etcd: {type: systemd}");
        assert_eq!(of_role(Role::Etcd, &cluster).unwrap(), "node2");
    }

    #[test]
    fn role_loadbalancer_has_the_hosts_that_can_have_the_address_of_the_endpoint() {
        let of = |roles: &str, sections: &str| {
            of_role(Role::LoadBalancer, &cluster_of(roles, "", sections))
        };
        let address = "controlPlaneEndpoint: 192.0.2.100";
        let holder = format!("highAvailability: {{type: keepalived-haproxy}}\n{address}:8443");
        let pods = format!("highAvailability: {{type: kube-vip}}\n{address}");
        for balancer in [&holder, &pods] {
            assert_eq!(of(ROLES, balancer).unwrap(), "node1", "{balancer}");
        }
        let worker = format!("{ROLES}, loadbalancer: [node2]");
        assert_eq!(of(&worker, &holder).unwrap(), "node2");
        let external = format!("highAvailability: {{type: external}}\n{address}");
        for balancer in ["", "highAvailability: {type: haproxy}", &external] {
            let refused = of(ROLES, balancer).unwrap_err();
            let expected = "no host of the cluster has the role loadbalancer\nhint: ";
            assert!(refused.starts_with(expected), "{refused}");
        }
    }
}
