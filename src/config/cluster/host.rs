//! `spec.hosts`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use super::{IpFamilies, PasswordSource};
use kubexm_types::{Arch, HostName, LabelKey, LabelValue};

/// The port of SSH servers without another one.
pub const DEFAULT_PORT: u16 = 22;
/// The user of SSH logins without another one.
pub const DEFAULT_USER: &str = "root";

/// Which program speaks SSH with a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// kubexm itself.
    #[default]
    BuiltIn,
    /// The `ssh` of this machine, with the configuration of the user.
    OpenSsh,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "builtin" => Ok(Self::BuiltIn),
            "openssh" => Ok(Self::OpenSsh),
            _ => Err("expected builtin or openssh".to_owned()),
        }
    }
}

/// A host and how to reach it.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// Node name.
    pub name: HostName,
    /// Address of the SSH server for the controller: an IP address or a DNS name.
    pub address: String,
    /// The address that the cluster uses (`node-ip`), or one of each address family. Default: `address`.
    pub internal_addresses: IpFamilies<IpAddr>,
    pub transport: Transport,
    /// SSH port; `None` for [`DEFAULT_PORT`].
    pub port: Option<u16>,
    /// SSH user: root, or a user with sudo; `None` for [`DEFAULT_USER`].
    pub user: Option<String>,
    /// SSH password, which is also tried for sudo. Never printed.
    pub password: Option<PasswordSource>,
    /// Private key file; `None` to try the agent and `~/.ssh`.
    pub private_key_path: Option<PathBuf>,
    /// The jump hosts on the way to the host, the nearest one to the controller first; `None` if the cluster file does
    /// not have the field.
    pub jump_hosts: Option<Vec<JumpHost>>,
    /// Architecture; `None` to use the facts of the host.
    pub arch: Option<Arch>,
    /// Labels of the node.
    pub labels: BTreeMap<LabelKey, LabelValue>,
    /// Taints of the node. `None` keeps kubeadm's default, which taints control planes; `Some(vec![])` removes it.
    pub taints: Option<Vec<Taint>>,
}

impl HostSpec {
    /// Returns whether this is an address of the host in the cluster.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.internal_addresses.iter().any(|own| own == address)
    }

    /// Returns the address that the cluster uses, of its primary address family.
    pub fn internal_address(&self) -> IpAddr {
        self.internal_addresses.primary()
    }
}

/// An SSH server through which kubexm reaches hosts. It is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JumpHost {
    /// IP address or DNS name.
    pub address: String,
    pub port: u16,
    pub user: String,
    /// SSH password. Never printed.
    pub password: Option<PasswordSource>,
    /// Private key file; `None` to try the agent and `~/.ssh`.
    pub private_key_path: Option<PathBuf>,
}

/// A node taint, `key=value:effect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: LabelKey,
    pub value: LabelValue,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}
