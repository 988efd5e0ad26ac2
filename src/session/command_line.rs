//! Commands that a report prints, complete so that they can be copied.

use std::path::Path;

use crate::quoting::quoted;
use crate::{Connection, PasswordOption};
use kubexm_types::HostName;

/// The options of this run that other commands need, too.
#[derive(Debug, Clone)]
pub struct CommandLine {
    options: String,
}

/// How commands begin that need no options besides those of this run. An install needs a bundle, for example.
const COMPLETE: [&str; 6] = [
    "kubexm app remove ",
    "kubexm logs ",
    "kubexm certs check",
    "kubexm certs renew",
    "kubexm certs rotate-ca",
    "kubexm doctor",
];

impl CommandLine {
    /// Returns the options of a run. A password is none of them, only where it comes from.
    pub fn new(cluster: &Path, connection: &Connection) -> Self {
        let mut options = format!("-f {}", quoted(&cluster.display().to_string()));
        let password_file = match &connection.password_option {
            PasswordOption::File(file) => Some(file),
            PasswordOption::Ask | PasswordOption::None => None,
        };
        let named = [
            ("--known-hosts", connection.known_hosts.as_ref()),
            ("--ssh-config", connection.ssh_config.as_ref()),
            ("--state", connection.state.as_ref()),
            ("--password-file", password_file),
        ];
        for (name, path) in named {
            if let Some(path) = path {
                let path = quoted(&path.display().to_string());
                options.push_str(&format!(" {name} {path}"));
            }
        }
        if connection.password_option == PasswordOption::Ask {
            options.push_str(" --ask-password");
        }
        Self { options }
    }

    /// Adds the options to the commands between backticks in a text, if they need no others.
    pub fn complete(&self, text: &str) -> String {
        let parts = text.split('`').enumerate().map(|(at, part)| {
            let is_command = at % 2 == 1 && COMPLETE.iter().any(|start| part.starts_with(start));
            if is_command {
                format!("{part} {}", self.options)
            } else {
                part.to_owned()
            }
        });
        parts.collect::<Vec<_>>().join("`")
    }

    /// Returns a command of kubexm, as in `certs renew`.
    pub fn kubexm(&self, command: &str) -> String {
        format!("kubexm {command} {}", self.options)
    }

    /// Returns an install, which needs a bundle that kubexm does not know here.
    pub fn install(&self) -> String {
        self.with_bundle("install")
    }

    /// Returns a command of kubexm that needs a bundle, as in `app apply`.
    pub fn with_bundle(&self, command: &str) -> String {
        format!("kubexm {command} --bundle BUNDLE {}", self.options)
    }

    /// Returns the command that runs a program on a host. The words are for the shell of the user.
    pub fn on(&self, host: &HostName, words: &str) -> String {
        format!("kubexm exec {} --host {host} -- {words}", self.options)
    }

    /// Returns the command that runs a line of shell on a host.
    pub fn shell(&self, host: &HostName, line: &str) -> String {
        self.on(host, &format!("sh -c {}", quoted(line)))
    }

    /// Returns the command that prints a log.
    pub fn logs(&self, program: &str, host: &HostName) -> String {
        format!("kubexm logs {} {program} --host {host}", self.options)
    }

    /// Returns a call of kubectl on a control plane, as its administrator.
    pub fn kubectl(&self, host: &HostName, words: &str) -> String {
        self.on(
            host,
            &format!("kubectl --kubeconfig /etc/kubernetes/admin.conf {words}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_types::Secret;

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

    #[test]
    fn commands_log_in_as_this_run() {
        let of = |password_option| {
            let connection = Connection {
                password: Some(Secret("secret".to_owned())),
                password_option,
                ..Connection::default()
            };
            CommandLine::new(Path::new("cluster.yaml"), &connection).kubexm("certs check")
        };
        let start = "kubexm certs check -f cluster.yaml";
        assert_eq!(of(PasswordOption::None), start);
        assert_eq!(of(PasswordOption::Ask), format!("{start} --ask-password"));
        assert_eq!(
            of(PasswordOption::File("my password".into())),
            format!("{start} --password-file 'my password'")
        );
    }

    #[test]
    fn commands_in_a_text_are_completed_if_they_need_nothing_else() {
        let line = CommandLine::new(Path::new("cluster.yaml"), &Connection::default());
        let text = "read its log with `kubexm logs kubelet --host node2`; `kubexm install` starts it again";
        assert_eq!(
            line.complete(text),
            "read its log with `kubexm logs kubelet --host node2 -f cluster.yaml`; `kubexm install` starts it again"
        );
        for text in [
            "",
            "run kubexm logs kubelet",
            "`kubectl uncordon` and `kubexm certs timer status`",
        ] {
            assert_eq!(line.complete(text), text);
        }
    }
}
