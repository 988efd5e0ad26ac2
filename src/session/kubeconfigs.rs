//! The kubeconfigs of administrators, which an install stores in the state directory.

use std::path::{Path, PathBuf};

use base64::Engine;

use crate::authorities::Known;
use crate::sealed::{self, Seal};
use crate::session::Hosts;
use crate::{CommandError, FileError, LeftOver, StepFailures};
use kubexm_config::Cluster;
use kubexm_engine::plan::{Journal, StepError, TaskId, TaskValue};
use kubexm_host::{Command, Host};
use kubexm_types::{Authority, HostName, remove_if_exists, write_atomic};

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
///
/// # Errors
/// Its CA is not that of the cluster, or the file cannot be written.
pub fn save_kubeconfig(journal: &Journal, text: &str) -> Result<PathBuf, CommandError> {
    accept(journal.folder(), text)?;
    let saved = journal.save("admin.conf", text.as_bytes());
    saved.map_err(|error| FileError::io("write admin.conf in", journal.folder(), &error).into())
}

/// Fails if a kubeconfig has a CA that the state directory does not record. Root on a control plane would choose whom `kubectl` trusts.
fn accept(state: &Path, text: &str) -> Result<(), CommandError> {
    let ca = field(text, "certificate-authority-data");
    if Known::of(state)?.has(Authority::Kubernetes, &String::from_utf8_lossy(&ca)) {
        return Ok(());
    }
    let text = "the kubeconfig of the first control plane has another CA than the Kubernetes CA of the cluster";
    let hint = "someone has changed the host: compare its /etc/kubernetes/admin.conf and /etc/kubernetes/pki/ca.crt with those of \
                another control plane; `kubexm node replace` creates the files again";
    Err(CommandError::refused(text).hint(hint))
}

/// Writes the kubeconfig of the group system:masters to the state directory: encrypted if the keys of CAs are, with its
/// certificate beside it, which states when it expires.
///
/// # Errors
/// Its CA is not that of the cluster, or a file cannot be written.
pub fn save_super_admin(state: &Path, text: &str) -> Result<(), CommandError> {
    accept(state, text)?;
    write_super_admin(state, text)
}

fn write_super_admin(state: &Path, text: &str) -> Result<(), CommandError> {
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
    write_super_admin(state, &text)
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
    use crate::begun::{Phase, RotationRecord};
    use crate::certificates::tests::{encrypted_state, identity_file};
    use crate::state_record::StateRecord;
    use kubexm_engine::cluster::ClusterRecord;
    use kubexm_types::Digest;

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

    /// Root on one control plane chose the CA that `kubectl` and the users of `kubexm kubeconfig` trust.
    #[test]
    fn kubeconfig_with_another_ca_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let [own, next, other] = ["YWJj", "YWJk", "YWJl"].map(|content| {
            format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n")
        });
        let journal = Journal::open(state).unwrap();
        let save = |cas: &[&String]| {
            let text: String = cas.iter().map(|ca| ca.as_str()).collect();
            let data = base64::engine::general_purpose::STANDARD.encode(text);
            let text = format!("    certificate-authority-data: {data}\n");
            let saved = [
                save_kubeconfig(&journal, &text).map(drop),
                save_super_admin(state, &text),
            ];
            saved.map(|saved| saved.is_ok())
        };
        // The first install learns it.
        assert_eq!(save(&[&other]), [true; 2]);
        let mut record = ClusterRecord::new("example".parse().unwrap()).unwrap();
        record.learn(Authority::Kubernetes, Digest::of(b"abc"));
        record.save(state).unwrap();
        assert_eq!(save(&[&own]), [true; 2]);
        for cas in [&[&other][..], &[&own, &other], &[&own, &next], &[]] {
            assert_eq!(save(cas), [false; 2]);
        }
        std::fs::create_dir_all(state.join("pki/rotation")).unwrap();
        std::fs::write(state.join("pki/rotation/kubernetes.next.crt"), &next).unwrap();
        assert_eq!(save(&[&own, &next]), [true; 2]);
        assert_eq!(save(&[&own, &other]), [false; 2]);
        // Its last phase has forgotten the former one.
        let mut rotation = RotationRecord::new([Authority::Kubernetes].into());
        rotation.phase = Phase::Remove;
        rotation.save(state).unwrap();
        assert_eq!(save(&[&own, &other]), [true; 2]);
        assert_eq!(save(&[&other]), [false; 2]);
    }
}
