//! Which host keys are taken.

use std::path::PathBuf;

use russh::keys::known_hosts::{known_host_keys_path, learn_known_hosts_path};
use russh::keys::{HashAlg, PublicKey};

/// The files that hold known keys, and what happens with unknown ones.
#[derive(Debug, Clone)]
pub struct HostKeys {
    /// Files in the format of OpenSSH's `known_hosts`.
    pub files: Vec<PathBuf>,
    /// Where the key of a host that is seen for the first time is recorded; `None` refuses it.
    pub accept_new: Option<PathBuf>,
}

/// What is thought of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is the recorded one, or was recorded just now.
    Known,
    /// It must not be talked to; the text says why and what to do.
    Refused(String),
}

impl HostKeys {
    /// Holds a presented key against the files.
    pub fn judge(&self, address: &str, port: u16, key: &PublicKey) -> Verdict {
        let files = self.files.iter().chain(&self.accept_new);
        let recorded: Vec<PublicKey> = files
            .filter_map(|file| known_host_keys_path(address, port, file).ok())
            .flatten()
            .map(|(_, key)| key)
            .collect();
        if recorded
            .iter()
            .any(|known| known.key_data() == key.key_data())
        {
            return Verdict::Known;
        }
        let shown = key.fingerprint(HashAlg::Sha256);
        if let Some(known) = recorded
            .iter()
            .find(|known| known.algorithm() == key.algorithm())
        {
            return Verdict::Refused(format!(
                "its SSH host key has CHANGED: recorded {}, shown {shown}. If the host was set up \
                 anew, remove the old line (ssh-keygen -R '{address}'); if not, somebody is in between",
                known.fingerprint(HashAlg::Sha256)
            ));
        }
        match &self.accept_new {
            None => Verdict::Refused(format!(
                "its SSH host key {shown} is unknown. Compare it at the host (ssh-keygen -lf \
                 /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or run with \
                 --accept-new-host-keys"
            )),
            Some(file) => match learn_known_hosts_path(address, port, key, file) {
                Ok(()) => Verdict::Known,
                Err(error) => Verdict::Refused(format!(
                    "its SSH host key cannot be recorded in {}: {error}",
                    file.display()
                )),
            },
        }
    }
}
