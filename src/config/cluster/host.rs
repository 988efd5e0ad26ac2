//! `spec.hosts`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use super::PasswordSource;
use kubexm_types::{Arch, HostName, LabelKey, LabelValue};

/// A host and how to reach it.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// Node name.
    pub name: HostName,
    /// Address of the SSH server for the controller: an IP address or a DNS name.
    pub address: String,
    /// The address that the cluster uses (`node-ip`). Default: `address`.
    pub internal_address: IpAddr,
    pub port: u16,
    /// SSH user: root, or a user with sudo.
    pub user: String,
    /// SSH password, which is also tried for sudo. Never printed.
    pub password: Option<PasswordSource>,
    /// Private key file; `None` to try the agent and `~/.ssh`.
    pub private_key_path: Option<PathBuf>,
    /// Architecture; `None` to use the facts of the host.
    pub arch: Option<Arch>,
    /// Labels of the node.
    pub labels: BTreeMap<LabelKey, LabelValue>,
    /// Taints of the node. `None` keeps kubeadm's default, which taints control planes; `Some(vec![])` removes it.
    pub taints: Option<Vec<Taint>>,
}

/// A node taint, `key=value:effect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: LabelKey,
    pub value: LabelValue,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}
