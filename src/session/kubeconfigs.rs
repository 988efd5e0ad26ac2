//! The kubeconfigs of administrators, which an install stores in the state directory.

use std::path::{Path, PathBuf};

use base64::Engine;

use crate::sealed::{self, Seal};
use crate::session::Hosts;
use crate::{CommandError, FileError, LeftOver, StepFailures};
use kubexm_config::Cluster;
use kubexm_engine::plan::{Journal, StepError, TaskId, TaskValue};
use kubexm_host::{Command, Host};
use kubexm_types::{HostName, remove_if_exists, write_atomic};

/// The kubeconfig of the group system:masters in a state directory.
pub const SUPER_ADMIN: &str = "super-admin.conf";
/// Its certificate, beside an encrypted one.
pub const SUPER_ADMIN_CERTIFICATE: &str = "super-admin.crt";

/// All files of that kubeconfig, encrypted or not.
pub const SUPER_ADMIN_FILES: [&str; 3] =
    [SUPER_ADMIN, "super-admin.conf.age", SUPER_ADMIN_CERTIFICATE];

/// Returns the kubeconfig of the group system:masters in a state directory; `None` if it has none.
pub fn super_admin(state: &Path) -> Option<PathBuf> {
    sealed::stored(&state.join(SUPER_ADMIN))
}

/// Writes the administrator's kubeconfig to the state directory, and returns its path.
pub fn save_kubeconfig(journal: &Journal, text: &str) -> Result<PathBuf, CommandError> {
    let saved = journal.save("admin.conf", text.as_bytes());
    saved.map_err(|error| FileError::io("write admin.conf in", journal.folder(), &error).into())
}

/// Writes the kubeconfig of the group system:masters to the state directory: encrypted if the keys of CAs are, with its
/// certificate beside it, which states when it expires.
///
/// # Errors
/// A file cannot be written.
pub fn save_super_admin(state: &Path, text: &str) -> Result<(), CommandError> {
    let path = state.join(SUPER_ADMIN);
    let written = Seal::of(state)?.write(&path, text.as_bytes());
    let written = written.map_err(|error| FileError::io("write", &path, &error))?;
    if written == path {
        return Ok(());
    }
    let certificate = state.join(SUPER_ADMIN_CERTIFICATE);
    let content = field(text, "client-certificate-data");
    write_atomic(&certificate, &content, 0o600)
        .map_err(|error| FileError::io("write", &certificate, &error))?;
    Ok(remove_if_exists(&path).map_err(|error| FileError::io("remove", &path, &error))?)
}

/// Encrypts the kubeconfig of the group system:masters, if it is in clear text and the keys of CAs are not any more.
///
/// # Errors
/// A file cannot be read or written.
pub fn seal_super_admin(state: &Path) -> Result<(), CommandError> {
    let path = state.join(SUPER_ADMIN);
    if !path.exists() || !Seal::of(state)?.encrypts() {
        return Ok(());
    }
    let text =
        std::fs::read_to_string(&path).map_err(|error| FileError::io("read", &path, &error))?;
    save_super_admin(state, &text)
}

/// Returns the decoded value of a field of a kubeconfig of kubexm; nothing if it has none.
pub fn field(text: &str, name: &str) -> Vec<u8> {
    let mut lines = text.lines().map(str::trim);
    let data = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let data = data.unwrap_or_default().trim().trim_matches('"');
    let engine = base64::engine::general_purpose::STANDARD;
    engine.decode(data).unwrap_or_default()
}

/// Stores super-admin.conf in the state directory and then removes it from control planes. An install that
/// is interrupted in between fetches the file again.
pub async fn keep_super_admin(
    super_admin: &TaskValue<String>,
    cluster: &Cluster,
    hosts: &Hosts,
    journal: &Journal,
) -> Result<(), CommandError> {
    let Some(text) = super_admin.get().filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    save_super_admin(journal.folder(), text)?;
    for name in &cluster.roles.control_plane {
        if let Some(host) = hosts.get(name) {
            remove_super_admin(name, host.as_ref()).await?;
        }
    }
    Ok(())
}

async fn remove_super_admin(name: &HostName, host: &dyn Host) -> Result<(), CommandError> {
    let action = "remove super-admin.conf from the host";
    let remove = Command::script(REMOVE_SUPER_ADMIN, [""; 0]).describe(action);
    let output = host.run(remove).await?;
    let failed = |error| StepFailures {
        failed: vec![(
            TaskId(format!("cluster/ready@{name}")),
            action.to_owned(),
            error,
        )],
        unreachable: Vec::new(),
        left: LeftOver {
            running: 0,
            waiting: 0,
        },
    };
    StepError::unless_done(action, output)
        .map_err(|error| CommandError::Steps(failed(error)))
        .map(|_| ())
}

const REMOVE_SUPER_ADMIN: &str =
    "rm -f /etc/kubernetes/super-admin.conf; sync /etc/kubernetes 2>/dev/null || sync";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::tests::{encrypted_state, identity_file};

    /// A state directory of an earlier version has it in clear text, although keys of CAs are encrypted.
    #[test]
    fn kubeconfig_of_masters_is_encrypted_with_the_keys_of_cas() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let text =
            "users:\n- user:\n    client-certificate-data: UEVN\n    client-key-data: QUJD\n";
        save_super_admin(state, text).unwrap();
        let clear = state.join(SUPER_ADMIN);
        assert_eq!(super_admin(state), Some(clear.clone()));
        let encryption = identity_file(state);
        encrypted_state(state, &encryption);
        assert!(!clear.exists());
        assert_eq!(super_admin(state), Some(state.join("super-admin.conf.age")));
        let certificate = std::fs::read(state.join(SUPER_ADMIN_CERTIFICATE));
        assert_eq!(certificate.unwrap(), b"PEM");
        let opener = sealed::Opener::of(state, Some(&encryption)).unwrap();
        let read = std::io::read_to_string(opener.open(&clear).unwrap());
        assert_eq!(read.unwrap(), text);
    }
}
