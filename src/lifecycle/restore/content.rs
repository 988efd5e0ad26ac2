//! What a restore reads from a backup before it looks at a host.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{encryption_keys, situation};
use crate::install::CaEncryption;
use kubexm_config::Cluster;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_pki::{CertificateStore, KeyIdentity, is_mark};
use kubexm_safekeeping::backup::collect;
use kubexm_safekeeping::backup::file;
use kubexm_safekeeping::backup::manifest::{Manifest, STATE};
use kubexm_safekeeping::backup::{Authorities, Evidence, Origin, PUBLIC};
use kubexm_session::authorities::{self, HostAuthorities, is_of_rotation};
use kubexm_session::begun::{self, RenewalRecord, RotationRecord, StateRecord, UpgradeRecord};
use kubexm_session::{CommandError, FileError, background};
use kubexm_types::{Authority, Message};

/// Removes the records of commands that have begun on hosts that do not exist any more, and the authorities of a rotation beside
/// the present ones: new hosts would trust them, and the next rotation would take them for its own.
///
/// # Errors
/// The file system refuses it.
pub(super) fn forget_commands(state: &Path) -> Result<(), CommandError> {
    RenewalRecord::remove(state)?;
    RotationRecord::remove(state)?;
    UpgradeRecord::remove(state)?;
    let failed = |error| FileError::io("remove files of a rotation in", state, &error);
    for name in authorities::files_of_rotation(state).map_err(failed)? {
        std::fs::remove_file(state.join(name)).map_err(failed)?;
    }
    Ok(())
}

/// What a user does about a backup of which nothing shows who made it.
const UNKNOWN: &str = "if the state directory is lost, put backup-signing.pub into a new one, or pass --accept-unknown-origin \
                       if you trust the storage of the backup";

/// A file of the state directory. It may be secret.
pub(super) type StateFile = (String, Vec<u8>);

/// A backup that was read completely.
pub(super) struct Content {
    pub(super) path: PathBuf,
    pub(super) identity: KeyIdentity,
    pub(super) manifest: Manifest,
    /// The files of the state directory.
    state: Vec<StateFile>,
    /// The authorities that kubeadm created.
    authorities: Authorities,
    origin: Origin,
}

impl Content {
    /// Finds out who made a backup, then reads it and compares all digests.
    ///
    /// # Errors
    /// The backup cannot be decrypted, is of another cluster, has a wrong signature, or is damaged. Nothing shows who made it, and
    /// `accepts_unknown` does not accept that.
    pub(super) async fn read(
        path: &Path,
        identity: KeyIdentity,
        state_directory: &Path,
        cluster: &Cluster,
        accepts_unknown: bool,
    ) -> Result<Self, CommandError> {
        let (path, state_directory) = (path.to_owned(), state_directory.to_owned());
        let cluster = cluster.clone();
        background::run(move || {
            let mut state = Vec::new();
            let mut authorities = Authorities::default();
            let decide = |manifest: &Manifest, evidence: &Evidence| {
                let record = ClusterRecord::read(&state_directory)?;
                situation::same_cluster(&path, manifest, &cluster, record.as_ref())?;
                let origin = evidence.origin(&path, &state_directory.join(PUBLIC))?;
                accepted(origin, accepts_unknown, &path)
            };
            let visit = |manifest: &Manifest, path: &str, content: &mut dyn Read| {
                if let Some(name) = path.strip_prefix(STATE) {
                    let mut bytes = Vec::new();
                    content.read_to_end(&mut bytes)?;
                    authorities.add(manifest, path, &mut bytes.as_slice())?;
                    state.push((name.to_owned(), bytes));
                    return Ok(());
                }
                Ok(authorities.add(manifest, path, content)?)
            };
            let (manifest, origin) = file::read(&path, &identity, decide, visit)?;
            Ok(Self {
                path,
                identity,
                manifest,
                state,
                authorities,
                origin,
            })
        })
        .await
    }

    /// Returns whether a run with this state directory made it.
    pub(super) fn is_own(&self) -> bool {
        self.origin == Origin::Own
    }

    /// Returns the names of the keys that encrypt Secrets in the backup and that the state directory does not have. `encryption` opens
    /// encrypted ones.
    ///
    /// # Errors
    /// The identity cannot be read.
    pub(super) fn missing_keys(
        &self,
        state: &Path,
        encryption: Option<&CaEncryption>,
    ) -> Result<Vec<String>, CommandError> {
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        Ok(encryption_keys::missing(&self.state, state, identity))
    }

    /// Returns the record of the cluster at the time of the backup.
    ///
    /// # Errors
    /// The backup has none, or the record is not one.
    pub(super) fn cluster_record(&self) -> Result<ClusterRecord, CommandError> {
        let mut files = self.state.iter();
        let found = files.find(|(name, _)| name == ClusterRecord::FILE);
        let invalid = |cause: Message| {
            let error = FileError::new("read the record of the cluster in", &self.path, cause.text);
            CommandError::from(error.hint("use another backup"))
        };
        let (_, text) = found.ok_or_else(|| invalid("it has none".into()))?;
        let value = serde_json::from_slice(text);
        let value = value.map_err(|error| invalid(Message::quoting(error.to_string())))?;
        StateRecord::parse(value).map_err(invalid)
    }

    /// Returns the names of authorities that a new first control plane needs and that the backup does not have; `None` if it
    /// has no files of hosts.
    pub(super) fn missing_authorities(&self) -> Option<Vec<String>> {
        self.authorities.best().map(HostAuthorities::lacks)
    }

    /// Returns the authorities that new hosts would get, although a rotation after the backup has replaced them in the record of the
    /// cluster.
    pub(super) fn replaced_authorities(&self, record: &ClusterRecord) -> Vec<Authority> {
        let best = self.authorities.best();
        best.map(|best| best.replaced_in(record))
            .unwrap_or_default()
    }

    /// Fails if `encryption` does not open the keys that the state directory has when its missing files are back. The install of new
    /// hosts needs them.
    ///
    /// # Errors
    /// A key is encrypted, and `encryption` is missing or another one.
    pub(super) fn check_opens(
        &self,
        state: &Path,
        encryption: Option<&CaEncryption>,
    ) -> Result<(), CommandError> {
        check_opens(&self.state, state, encryption)
    }

    /// Returns why authorities of hosts are not used.
    pub(super) fn foreign_authorities(&self) -> Vec<String> {
        self.authorities.problems()
    }

    /// Writes the files of the state directory that are missing there. For hosts without a cluster, also the authorities of
    /// kubeadm, until the install has used them, and no SSH host keys: those hosts have other ones.
    ///
    /// # Errors
    /// The file system refuses a file, or `encryption` does not open the keys of the state directory.
    pub(super) fn put_back(
        &self,
        state: &Path,
        is_new: bool,
        encryption: Option<&CaEncryption>,
    ) -> Result<(), CommandError> {
        let failed = |error| FileError::io("write the files of the backup in", state, &error);
        // The record of the cluster comes last: without it, the next run puts back everything.
        let is_record = |name: &str| name == ClusterRecord::FILE;
        let (last, first): (Vec<_>, Vec<_>) =
            self.state.iter().partition(|(name, _)| is_record(name));
        let is_left_out = |name: &str| {
            name == "journal.jsonl"
                || begun::files_of_hosts().any(|file| file == name)
                || is_of_rotation(name)
                || is_new && name == "known_hosts"
        };
        for (name, content) in first.into_iter().chain(last) {
            let is_there = if is_mark(content) {
                state.join(name).exists()
            } else {
                has(state, name)
            };
            if !is_left_out(name) && !is_there {
                collect::put_back(state, name, content).map_err(failed)?;
            }
        }
        match self.authorities.best() {
            Some(best) if is_new => {
                authorities::save(state, best, encryption)?;
                authorities::learn(state, best)
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether the state directory has a file. A backup of before its encryption has it in clear text.
pub(super) fn has(state: &Path, name: &str) -> bool {
    let clear = state.join(clear_name(name));
    let is_clear = || clear.exists() && !std::fs::read(&clear).is_ok_and(|found| is_mark(&found));
    let is_encrypted = |end: &&str| state.join(format!("{}{end}", clear_name(name))).exists();
    ENCRYPTED.iter().any(is_encrypted) || is_clear()
}

/// The ends of the names of encrypted files.
const ENCRYPTED: [&str; 2] = [".age", ".sealed"];

/// Returns the name of a file before it was encrypted.
pub(super) fn clear_name(name: &str) -> &str {
    let mut ends = ENCRYPTED.iter();
    ends.find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// See [`Content::check_opens`].
fn check_opens(
    backup: &[StateFile],
    state: &Path,
    encryption: Option<&CaEncryption>,
) -> Result<(), CommandError> {
    let is_missing = |name: &str| {
        let is_key = name.starts_with("pki/") && name.ends_with(".key.age");
        is_key && !is_of_rotation(name) && !has(state, name)
    };
    let missing = backup.iter().filter(|(name, _)| is_missing(name));
    let identity = encryption.map(CaEncryption::identity).transpose()?;
    let store = CertificateStore::read_only(state.join("pki")).encrypted(identity);
    for (name, encrypted) in missing {
        store.opens_key(&state.join(name), encrypted)?;
    }
    for store in [&store, &store.subdirectory("kubernetes")] {
        store.opens_keys()?;
    }
    Ok(())
}

/// Returns the origin of a backup.
///
/// # Errors
/// Nothing shows who made it, and the user does not accept that.
fn accepted(origin: Origin, accepts_unknown: bool, backup: &Path) -> Result<Origin, CommandError> {
    match origin {
        Origin::Unknown(why) if !accepts_unknown => {
            let cause = format!("nothing shows who made it: {why}");
            let error = FileError::new("restore from the backup", backup, cause);
            Err(error.hint(UNKNOWN).into())
        }
        Origin::Unknown(_) | Origin::Own => Ok(origin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_pki::Ca;
    use kubexm_types::Secret;

    /// It was asked for after the user had confirmed, and after files had been written.
    #[test]
    fn identity_of_the_keys_is_asked_for_before_the_restore_begins() {
        let folder = tempfile::tempdir().unwrap();
        let (state, lost) = (folder.path().join("state"), folder.path().join("lost"));
        let phrase = |text: &str| CaEncryption::Passphrase(Secret(text.to_owned()));
        let (right, wrong) = (phrase("right"), phrase("wrong"));
        let identity = right.identity().unwrap();
        let store = CertificateStore::new(state.join("pki")).encrypted(Some(identity));
        Ca::load_or_create(&store, "kubexm-example").unwrap();
        let name = "pki/kubexm-example.key.age";
        let backup = [(name.to_owned(), std::fs::read(state.join(name)).unwrap())];
        for (files, state) in [(&backup[..], &lost), (&[][..], &state)] {
            let refused = check_opens(files, state, None).unwrap_err().to_string();
            assert!(
                refused.contains(&format!(
                    "{} is encrypted\nhint: pass what encrypted it",
                    state.join(name).display()
                )),
                "{refused}"
            );
            assert!(check_opens(files, state, Some(&wrong)).is_err());
            check_opens(files, state, Some(&right)).unwrap();
        }
        check_opens(&[], &lost, None).unwrap();
        assert!(!lost.exists());
    }

    /// The key of before a rotation took the place of the encrypted one.
    #[test]
    fn file_in_clear_text_does_not_come_back_beside_an_encrypted_one() {
        let state = tempfile::tempdir().unwrap();
        for name in ["ca.key.age", "sa.key.sealed", "admin.conf"] {
            std::fs::write(state.path().join(name), "x").unwrap();
        }
        for name in [
            "ca.key",
            "ca.key.age",
            "sa.key",
            "sa.key.sealed",
            "admin.conf",
            "admin.conf.age",
        ] {
            assert!(has(state.path(), name), "{name}");
        }
        assert!(!has(state.path(), "ca.crt") && !has(state.path(), "sa.pub"));
    }

    #[test]
    fn new_hosts_trust_no_authority_of_a_rotation() {
        let state = tempfile::tempdir().unwrap();
        let path = |name: &str| state.path().join(name);
        std::fs::create_dir_all(path("pki/kubernetes")).unwrap();
        std::fs::create_dir_all(path("pki/rotation")).unwrap();
        let stays = ["pki/etcd-ca.crt", "pki/kubernetes/sa.key", "admin.conf"];
        let goes = [
            "pki/etcd-ca.former.crt",
            "pki/kubernetes/sa.next.key",
            "pki/rotation/kubernetes.crt",
        ];
        for name in stays.iter().chain(&goes) {
            std::fs::write(path(name), "x").unwrap();
        }
        forget_commands(state.path()).unwrap();
        assert!(stays.iter().all(|name| path(name).exists()));
        assert!(goes.iter().all(|name| !path(name).exists()));
        forget_commands(&path("none")).unwrap();
    }
}
