//! Options of commands that connect to hosts.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::option_of_service::option_with_file;
use super::password::HostPasswordArgs;
use kubexm_session::Connection;

/// The heading of options that a command has in common with others. They stand after its own.
pub const HEADING: &str = "Connection and state";

/// How hosts are reached.
#[derive(Debug, Args)]
pub struct ConnectionArgs {
    /// A file with SSH host keys, in addition to ~/.ssh/known_hosts
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    known_hosts: Option<PathBuf>,
    /// Take HostName, Port, User, IdentityFile and ProxyJump of hosts from an OpenSSH configuration
    ///
    /// `address` of a host is the name that the file knows, as in `ssh NAME`. Fields of the cluster file have
    /// precedence. A file with a Match section and a host with a ProxyCommand or RevokedHostKeys are refused.
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    ssh_config: Option<PathBuf>,
    /// Accept and record the SSH key of a host that is not known yet
    #[arg(long, help_heading = HEADING)]
    accept_new_host_keys: bool,
    /// State directory with the cluster's ID, journal, CAs and kubeconfig
    ///
    /// The default is `$XDG_STATE_HOME/kubexm/<cluster>`, which is `~/.local/state/kubexm/<cluster>` where that
    /// variable is not set. A directory `.kubexm/<cluster>` of an earlier version in the working directory is
    /// still used.
    #[arg(long, value_name = "DIR", help_heading = HEADING)]
    state: Option<PathBuf>,
    #[command(flatten)]
    password: HostPasswordArgs,
}

impl ConnectionArgs {
    /// Returns the options for a command.
    ///
    /// # Errors
    /// The password cannot be read.
    pub fn options(&self) -> Result<Connection, Failure> {
        Ok(Connection {
            known_hosts: self.known_hosts.clone(),
            ssh_config: self.ssh_config.clone(),
            accept_new_host_keys: self.accept_new_host_keys,
            state: self.state.clone(),
            password: self.password.password()?,
            password_option: self.password.option(),
        })
    }

    /// Returns the options with which a service reaches the hosts, apart from the state directory.
    ///
    /// # Errors
    /// A person would have to type a password, or to accept a key.
    pub fn unattended(&self) -> Result<Vec<String>, Failure> {
        if self.accept_new_host_keys {
            return Err(Failure::configuration(
                "a run of a timer does not accept new SSH host keys",
            )
            .hint(
                "leave out --accept-new-host-keys, and connect once \
                 before: `kubexm status --accept-new-host-keys`",
            ));
        }
        let files = [
            ("--known-hosts", &self.known_hosts),
            ("--ssh-config", &self.ssh_config),
        ];
        let mut words = Vec::new();
        for (option, file) in files {
            if let Some(file) = file {
                words.extend(option_with_file(option, file)?);
            }
        }
        words.extend(self.password.unattended()?);
        Ok(words)
    }
}
