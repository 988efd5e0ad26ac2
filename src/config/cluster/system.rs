//! `spec.system`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kubexm_types::{HostAddress, HostName, KernelModule, KernelSetting, KernelValue, TimeZone};

use super::{Hook, SiteFile};

/// `spec.system`.
#[derive(Debug, Clone)]
pub struct System {
    /// Whether kubexm may turn off swap. Otherwise preflight refuses hosts with swap.
    pub disable_swap: bool,
    /// Whether kubexm manages a block of `/etc/hosts`.
    pub manage_hosts_file: bool,
    /// Whether kubexm installs the bundle's OS packages.
    pub install_packages: bool,
    /// Maximum difference between the clocks of hosts, in seconds.
    pub max_clock_skew_seconds: u64,
    /// Additional sysctl values.
    pub sysctl: BTreeMap<KernelSetting, KernelValue>,
    /// Whether kubexm gives each host its name of the cluster file.
    pub set_host_names: bool,
    /// Name servers of the hosts; `None` leaves them as they are.
    pub resolvers: Option<Resolvers>,
    /// Time servers of the hosts; `None` leaves them as they are.
    pub time: Option<Time>,
    /// Time zone of the hosts; `None` leaves it as it is.
    pub time_zone: Option<TimeZone>,
    /// Additional kernel modules.
    pub modules: Vec<KernelModule>,
    /// Additional lines of `/etc/hosts`: addresses and their names.
    pub hosts: BTreeMap<IpAddr, Vec<HostName>>,
    /// Files of the user for hosts.
    pub files: Vec<SiteFile>,
    /// Scripts of the user that run on hosts.
    pub hooks: Vec<Hook>,
}

/// `spec.system.resolvers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolvers {
    /// Addresses of name servers: at most three, which is the limit of resolv.conf(5).
    pub servers: Vec<IpAddr>,
    /// Domains that a name without a dot may be in.
    pub searches: Vec<HostName>,
}

/// `spec.system.time`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Time {
    /// NTP servers outside of the cluster.
    pub servers: Vec<HostAddress>,
    /// The host of the cluster that serves the time to all others; `None` if they use `servers`.
    pub source: Option<HostName>,
}
