//! How to log in to each host, by the cluster file, the options and the SSH configuration.

use crate::CommandError;
use crate::session::Connection;
use crate::ssh_config::SshConfig;
use kubexm_config::Cluster;
use kubexm_config::cluster::{JumpHost, PasswordSource, Transport};
use kubexm_host::known_hosts::HostKeys;
use kubexm_host::{JumpHosts, OpenSsh, Server, SshOptions};
use kubexm_types::Secret;

impl Connection {
    /// Returns how to connect to each host.
    ///
    /// # Errors
    /// A password cannot be read.
    pub(super) fn logins(
        &self,
        cluster: &Cluster,
        host_keys: &HostKeys,
    ) -> Result<Vec<SshOptions>, CommandError> {
        let mut passwords = Passwords::default();
        let mut hosts = cluster.hosts.iter();
        // Only `ssh` itself reads all of its configuration.
        let is_read = hosts.any(|host| host.transport == Transport::BuiltIn);
        let config = match self.ssh_config.as_ref().filter(|_| is_read) {
            Some(file) => SshConfig::load(file)?,
            None => SshConfig::default(),
        };
        let jump_hosts = JumpHosts::default();
        let options = cluster.hosts.iter().map(|host| {
            let password = match &host.password {
                Some(source) => Some(passwords.read(source)?),
                None => self.password.clone(),
            };
            let (server, way, openssh) = match host.transport {
                Transport::BuiltIn => {
                    let way: Result<_, _> = match &host.jump_hosts {
                        Some(way) => way.iter().map(|jump| passwords.server_of(jump)).collect(),
                        None => config.way(&host.address),
                    };
                    (config.server(host, password)?, way?, None)
                }
                Transport::OpenSsh => {
                    let server = SshConfig::default().server(host, password)?;
                    let openssh = OpenSsh {
                        config: self.ssh_config.clone(),
                        user: host.user.clone(),
                        port: host.port,
                    };
                    (server, Vec::new(), Some(openssh))
                }
            };
            Ok(SshOptions {
                name: host.name.clone(),
                server,
                openssh,
                way,
                jump_hosts: jump_hosts.clone(),
                host_keys: host_keys.clone(),
            })
        });
        options.collect()
    }
}

/// Reads passwords, each source once: a pipe cannot be read twice.
#[derive(Default)]
struct Passwords(Vec<(PasswordSource, Secret)>);

impl Passwords {
    fn read(&mut self, source: &PasswordSource) -> Result<Secret, CommandError> {
        let known = self.0.iter().find(|(other, _)| other == source);
        if let Some((_, password)) = known {
            return Ok(password.clone());
        }
        let password = source.read()?;
        self.0.push((source.clone(), password.clone()));
        Ok(password)
    }

    /// A jump host without a password gets none: the password of the command line is for hosts of the cluster.
    fn server_of(&mut self, jump: &JumpHost) -> Result<Server, CommandError> {
        let password = jump.password.as_ref();
        Ok(Server {
            address: jump.address.clone(),
            port: jump.port,
            user: jump.user.clone(),
            password: password.map(|source| self.read(source)).transpose()?,
            private_key: jump.private_key_path.clone(),
        })
    }
}
