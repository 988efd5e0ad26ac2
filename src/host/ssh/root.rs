//! How commands get the permissions of root, and whether sudo stores what they read.

use super::recording::{RULES, recording};
use super::session::Session;
use crate::{HostError, Input, Output};
use kubexm_types::{Message, Secret};

/// How commands get root's permissions.
pub(super) enum BecomeRoot {
    /// The user is root already.
    AlreadyRoot,
    /// `sudo` requires no password.
    Sudo,
    /// `sudo` reads the password from the first line of standard input.
    SudoWithPassword(Secret),
}

impl Session {
    /// Determines whether sudo is needed, and whether it requires a password.
    pub(super) async fn probe_root(&self) -> Result<BecomeRoot, HostError> {
        if self.options.server.user == "root" {
            return Ok(BecomeRoot::AlreadyRoot);
        }
        let has_sudo = self
            .execute("command -v sudo", Input::None, None, "look for sudo")
            .await?;
        if !has_sudo.success() {
            let reason = Message::quoting("the host does not have sudo");
            let reason = reason.hint("install sudo on the host, or log in as root");
            return Err(self.options.denied(reason));
        }
        // `-k` drops cached credentials of an earlier login, so that the answer is valid for every
        // command. Sudo rules may allow only some programs; every command starts with `env`.
        let line = "sudo -k; sudo -n -- env true || exit; LC_ALL=C sudo -n -l || sudo -V";
        let plain = self.execute(line, Input::None, None, "sudo").await?;
        let password = &self.options.server.password;
        if plain.success() {
            let listed = match password {
                // `listpw` of sudoers can ask for it.
                Some(password) if !is_listed(&plain) => self.list_rules(password).await?,
                _ => plain,
            };
            self.check_recording(&listed)?;
            return Ok(BecomeRoot::Sudo);
        }
        let Some(password) = password else {
            let reason = Message::quoting(format!("sudo refuses: {}", plain.complaint()));
            let hint = "set password for the host in the cluster file, or permit the user every command without a password \
                        in sudoers (NOPASSWD: ALL, without requiretty)";
            return Err(self.options.denied(reason.hint(hint)));
        };
        let input = password_line(password);
        let line = "sudo -k -S -p '' -- env true";
        let output = self.execute(line, input, None, "sudo").await?;
        if output.success() {
            let listed = self.list_rules(password).await?;
            self.check_recording(&listed)?;
            return Ok(BecomeRoot::SudoWithPassword(password.clone()));
        }
        let complaint = output.complaint();
        // sudo, and sudo-rs.
        let wrong = [
            "incorrect password",
            "Authentication failed",
            "incorrect authentication",
        ];
        if wrong.iter().any(|words| complaint.as_str().contains(words)) {
            let reason = Message::quoting("sudo refuses the password of the cluster file");
            let reason = reason.hint("correct password for the host in the cluster file");
            return Err(self.options.denied(reason));
        }
        let reason = Message::quoting(format!("sudo refuses: {complaint}"));
        let reason = reason.hint("permit the user every command in sudoers, without requiretty");
        Err(self.options.denied(reason))
    }

    /// Returns the rules of sudo for the user, or its version. The command is one of its own: a sudo that records would pass on,
    /// and store, a second line of input.
    async fn list_rules(&self, password: &Secret) -> Result<Output, HostError> {
        let line = "LC_ALL=C sudo -k -S -p '' -l || sudo -V";
        let input = password_line(password);
        self.execute(line, input, None, "sudo -l").await
    }

    /// Refuses a host whose sudo records what commands read: it would store secrets, and each bundle.
    fn check_recording(&self, listed: &Output) -> Result<(), HostError> {
        let user = &self.options.server.user;
        // sudo-rs cannot record, and earlier versions of it cannot list.
        if !is_listed(listed) && !listed.text().contains("sudo-rs") {
            let reason = Message::new(
                "sudo does not list its rules (sudo -l), which say whether it records the input of commands",
            );
            let hint = format!(
                "set password for the host in the cluster file, add `Defaults:{user} listpw=any` to sudoers on the host, or log in as root"
            );
            return Err(self.options.denied(reason.hint(hint)));
        }
        let Some(hint) = recording(&listed.text()).map(|recording| recording.end(user)) else {
            return Ok(());
        };
        let reason = Message::new(
            "sudo records the input of commands (log_input), so that it would store secrets and bundles of the cluster",
        );
        Err(self.options.denied(reason.hint(hint)))
    }
}

/// Returns whether sudo listed its rules for the user.
fn is_listed(listed: &Output) -> bool {
    listed.text().contains(RULES)
}

fn password_line(password: &Secret) -> Input {
    Input::Bytes(format!("{}\n", password.0).into_bytes())
}
