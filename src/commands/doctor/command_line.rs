//! Commands that a finding prints, complete so that they can be copied.

use std::path::{Path, PathBuf};

use crate::Connection;
use crate::quoting::quoted;
use kubexm_types::HostName;

/// The options of this run that other commands need, too.
#[derive(Debug, Clone)]
pub(super) struct CommandLine {
    options: String,
}

impl CommandLine {
    pub(super) fn new(cluster: &Path, connection: &Connection) -> Self {
        let mut options = format!("-f {}", quoted(&cluster.display().to_string()));
        let named: [(&str, &Option<PathBuf>); 3] = [
            ("--known-hosts", &connection.known_hosts),
            ("--ssh-config", &connection.ssh_config),
            ("--state", &connection.state),
        ];
        for (name, path) in named {
            if let Some(path) = path {
                let path = quoted(&path.display().to_string());
                options.push_str(&format!(" {name} {path}"));
            }
        }
        Self { options }
    }

    /// Returns a command of kubexm, as in `certs renew`.
    pub(super) fn kubexm(&self, command: &str) -> String {
        format!("kubexm {command} {}", self.options)
    }

    /// Returns an install, which needs a bundle that kubexm does not know here.
    pub(super) fn install(&self) -> String {
        format!("kubexm install BUNDLE {}", self.options)
    }

    /// Returns the command that runs a program on a host. The words are for the shell of the user.
    pub(super) fn on(&self, host: &HostName, words: &str) -> String {
        format!("kubexm exec {} --host {host} -- {words}", self.options)
    }

    /// Returns the command that runs a line of shell on a host.
    pub(super) fn shell(&self, host: &HostName, line: &str) -> String {
        self.on(host, &format!("sh -c {}", quoted(line)))
    }

    /// Returns the command that prints a log.
    pub(super) fn logs(&self, program: &str, host: &HostName) -> String {
        format!("kubexm logs {} {program} --host {host}", self.options)
    }

    /// Returns a call of kubectl on a control plane, as its administrator.
    pub(super) fn kubectl(&self, host: &HostName, words: &str) -> String {
        self.on(
            host,
            &format!("kubectl --kubeconfig /etc/kubernetes/admin.conf {words}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_options_of_this_run() {
        let connection = Connection {
            state: Some("/var/my state".into()),
            ..Connection::default()
        };
        let line = CommandLine::new(Path::new("cluster.yaml"), &connection);
        let host = "node2".parse().unwrap_or_else(|_| unreachable!());
        assert_eq!(
            line.shell(&host, "swapoff -a; echo 'x'"),
            r"kubexm exec -f cluster.yaml --state '/var/my state' --host node2 -- sh -c 'swapoff -a; echo '\''x'\'''"
        );
        assert_eq!(
            line.kubexm("certs renew"),
            "kubexm certs renew -f cluster.yaml --state '/var/my state'"
        );
    }
}
