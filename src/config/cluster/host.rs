//! `spec.hosts`: machines.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use kubexm_types::{Arch, HostName, Secret};

/// A machine and how to reach it.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// Node name.
    pub name: HostName,
    /// Where SSH is, as seen from here: an IP address or a DNS name.
    pub address: String,
    /// The address that the cluster uses (`node-ip`); equals `address` where not given.
    pub internal_address: IpAddr,
    /// SSH port.
    pub port: u16,
    /// SSH user: root, or one that may `sudo`.
    pub user: String,
    /// SSH password, also tried for sudo. Never printed.
    pub password: Option<Secret>,
    /// Private key file; without it the agent and `~/.ssh` are tried.
    pub private_key_path: Option<PathBuf>,
    /// Architecture, where given; facts decide otherwise.
    pub arch: Option<Arch>,
    /// Node labels.
    pub labels: BTreeMap<String, String>,
    /// Node taints; `None` leaves kubeadm's default (control planes are tainted), `Some(vec![])`
    /// takes that away.
    pub taints: Option<Vec<Taint>>,
}

/// A node taint, `key=value:effect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}
