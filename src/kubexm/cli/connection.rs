//! Options of commands that connect to hosts.

use std::path::PathBuf;

use clap::Args;

use kubexm_commands::Connection;

/// How hosts are reached.
#[derive(Debug, Args)]
pub struct ConnectionArgs {
    /// File with the hosts' SSH keys, beside ~/.ssh/known_hosts
    #[arg(long, value_name = "FILE")]
    known_hosts: Option<PathBuf>,
    /// Take and record the SSH key of a host that is seen for the first time
    #[arg(long)]
    accept_new_host_keys: bool,
    /// Where the cluster's journal, CA and kubeconfig are kept [default: .kubexm/<cluster>]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl ConnectionArgs {
    /// Returns the options for a command.
    pub fn options(&self) -> Connection {
        Connection {
            known_hosts: self.known_hosts.clone(),
            accept_new_host_keys: self.accept_new_host_keys,
            state: self.state.clone(),
        }
    }
}
