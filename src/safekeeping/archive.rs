//! What a command saves in the state directory before a change that it cannot revert: a snapshot of etcd, and the keys and
//! certificates of the cluster.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use kubexm_config::Cluster;
use kubexm_etcd::{Failure, Member, Source, by_preference};
use kubexm_host::{Command, Limit};
use kubexm_session::archives::{self, FOLDER};
use kubexm_session::begun::UpgradeRecord;
use kubexm_session::certificates::CaEncryption;
use kubexm_session::sealed::Seal;
use kubexm_session::session::Hosts;
use kubexm_session::{CommandError, FileError, private_directory};
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message, WarningKind, write_atomic};

/// The number of archives that stay, besides those of an upgrade that has begun.
const KEPT: usize = 5;
/// The mode of files with keys and data.
const OWNER_ONLY: u32 = 0o600;
const LIMIT: Limit = Limit::DEFAULT;

/// Before which change an archive is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The removal of a cluster.
    Reset,
    /// A new version of Kubernetes.
    Upgrade,
    /// The removal of members of etcd.
    Removal,
}

impl Occasion {
    fn name(self) -> &'static str {
        match self {
            Self::Reset => "the reset",
            Self::Upgrade => "the upgrade",
            Self::Removal => "the removal",
        }
    }

    /// Returns what helps if no snapshot succeeds.
    fn hint(self) -> &'static str {
        match self {
            Self::Reset => {
                "start etcd on one of these hosts and reset again, or pass --no-snapshot to delete its data without a \
                 copy; no host was changed"
            }
            Self::Upgrade => "start etcd on one of these hosts, then upgrade again",
            Self::Removal => "start etcd on one of these hosts, then remove the host again",
        }
    }
}

/// An archive of a cluster in its state directory.
pub struct Archive {
    folder: PathBuf,
    occasion: Occasion,
    seal: Seal,
}

impl Archive {
    /// Creates the directory of an archive. Its name is the current time. Files with secrets are encrypted if the keys of
    /// CAs are; `encryption` is what the user gave for them.
    pub fn create(
        state: &Path,
        occasion: Occasion,
        encryption: Option<&CaEncryption>,
        events: &Events,
    ) -> Result<Self, CommandError> {
        let seal = Seal::of_earlier(state, encryption, events)?;
        let folder = private_directory::create_for_now(&state.join(FOLDER), "create the archive")?;
        if seal.encrypts() {
            archives::add_keys(state, &folder)?;
        }
        Ok(Self {
            folder,
            occasion,
            seal,
        })
    }

    /// Returns the directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what writes files with secrets into the directory.
    pub fn seal(&self) -> &Seal {
        &self.seal
    }

    /// Copies the keys, certificates and the kubeconfig of the state directory.
    pub fn save_state(&self, state: &Path) -> Result<(), CommandError> {
        for name in ["admin.conf", "pki", "cluster.json"] {
            let from = state.join(name);
            copy(&from, &self.folder.join(name), &self.seal).map_err(|error| {
                FileError::new("archive", &from, error).hint("make room in the state directory")
            })?;
        }
        Ok(())
    }

    /// Removes older archives now that this one is complete. The newest ones stay, and those to which a rollback goes back.
    /// Warns if that is not possible: the command goes on without it.
    pub fn keep_newest(&self, state: &Path, events: &Events) {
        if let Err(error) = self.remove_older(state, events) {
            events.warn(WarningKind::StateDirectory, Message::from(&error));
        }
    }

    fn remove_older(&self, state: &Path, events: &Events) -> Result<(), CommandError> {
        let record = UpgradeRecord::load(state)?;
        let needed = |folder: &Path| {
            let mut archives = record.iter().flat_map(|record| record.archives.values());
            archives.any(|archive| archive.file_name() == folder.file_name())
        };
        let mut old = archives::list(state)?;
        old.truncate(old.len().saturating_sub(KEPT));
        old.retain(|folder| *folder != self.folder && !needed(folder));
        for old in old {
            std::fs::remove_dir_all(&old)
                .map_err(|error| FileError::io("remove the old archive", &old, &error))?;
            events.note(format!(
                "removed the archive {}: {KEPT} newer ones are beside it",
                old.display()
            ));
        }
        Ok(())
    }

    /// Saves the keys and certificates that kubeadm created, from the first control plane that has them.
    pub async fn save_authorities(
        &self,
        cluster: &Cluster,
        hosts: &Hosts,
    ) -> Result<(), CommandError> {
        for name in &cluster.roles.control_plane {
            let Some(host) = hosts.get(name) else {
                continue;
            };
            let script = "[ ! -d /etc/kubernetes/pki ] || tar -cf - -C /etc/kubernetes pki";
            let command = Command::script(script, [""; 0])
                .describe("read the cluster's keys")
                .limit(LIMIT)
                .secret_output();
            let output = host.run(command).await?;
            if output.success() && !output.stdout.is_empty() {
                let file = self.folder.join(format!("pki-{name}.tar"));
                self.seal
                    .write(&file, &output.stdout)
                    .map_err(|error| FileError::io("write", &file, &error))?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Saves a snapshot of the etcd that the change affects. Returns its file; `None` if no reachable host has data of
    /// etcd. Asks first the members that take the snapshot of a backup.
    ///
    /// `resetting` returns whether an earlier reset of a host began, after it saved what it had to. Such a reset may have
    /// ended etcd before it removed the data, so that a member without a snapshot does not stop this one.
    ///
    /// # Errors
    /// Hosts have data of etcd, and no snapshot succeeds. This machine cannot store the snapshot.
    pub async fn save_etcd(
        &self,
        cluster: &Cluster,
        hosts: &Hosts,
        resetting: impl Fn(&HostName) -> bool,
        events: &Events,
    ) -> Result<Option<PathBuf>, CommandError> {
        let warn = |text| events.warn(WarningKind::EtcdSnapshot, text);
        let mut failures = Vec::new();
        for member in by_preference(Member::on(cluster, hosts)).await {
            let name = member.name;
            if !member.has_data().await? {
                continue;
            }
            let file = self.folder.join("etcd-snapshot.db");
            match save(&member, &file, &self.seal).await {
                Ok(file) => return Ok(Some(file)),
                Err(Failure::Here(error)) => {
                    return Err(FileError::io("write", &file, &error).into());
                }
                Err(Failure::Member(cause)) if resetting(name) => warn(format!(
                    "{name}: no snapshot of etcd: {cause}\n  an earlier reset of this host began, and this one continues it"
                )),
                Err(Failure::Member(cause)) => {
                    warn(format!("{name}: no snapshot of etcd: {cause}"));
                    failures.push(format!("{name}: {cause}"));
                }
            }
        }
        if failures.is_empty() {
            Ok(None)
        } else {
            Err(CommandError::refused(format!(
                "no snapshot of etcd could be taken before {}:\n{}",
                self.occasion.name(),
                failures.join("\n")
            ))
            .hint(self.occasion.hint()))
        }
    }
}

/// Takes a snapshot and copies it to a file. Returns its path.
async fn save(member: &Member<'_>, path: &Path, seal: &Seal) -> Result<PathBuf, Failure> {
    let saved = async {
        let file = member.save().await?;
        let target = seal.create(path).map_err(Failure::Here)?;
        let target = member.copy(Source::Snapshot, &file, target).await?;
        target.commit().map_err(Failure::Here)
    };
    let saved = saved.await;
    member.remove().await;
    saved
}

/// Copies a file, or a directory with its content, if it exists. Files with secrets are sealed.
fn copy(from: &Path, to: &Path, seal: &Seal) -> io::Result<()> {
    match std::fs::symlink_metadata(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(about) if about.is_dir() => {
            DirBuilder::new().recursive(true).mode(0o700).create(to)?;
            for entry in std::fs::read_dir(from)? {
                let entry = entry?;
                copy(&entry.path(), &to.join(entry.file_name()), seal)?;
            }
            Ok(())
        }
        Ok(_) if archives::is_public(from) => write_atomic(to, &std::fs::read(from)?, OWNER_ONLY),
        Ok(_) => seal.write(to, &std::fs::read(from)?).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use super::*;
    use kubexm_host::{Host, HostError, Output};
    use kubexm_session::begun::StateRecord;
    use kubexm_session::certificates;
    use kubexm_session::sealed::Opener;
    use kubexm_types::{Digest, Secret};

    fn create(state: &Path, occasion: Occasion) -> Archive {
        Archive::create(state, occasion, None, &Events::silent()).unwrap()
    }

    /// A host with a member of etcd. It answers the calls of `snapshot.sh`.
    struct FakeHost {
        name: HostName,
        content: Vec<u8>,
        digest: String,
        has_data: bool,
        /// The ID of the leader, 0 without one; `None` for a member that does not answer.
        leader: Option<u64>,
    }

    #[async_trait::async_trait]
    impl Host for FakeHost {
        fn name(&self) -> &HostName {
            &self.name
        }

        async fn run(&self, command: Command) -> Result<Output, HostError> {
            let words = command.into_parts().0;
            let verbs = ["status", "has-data", "save", "read", "remove"];
            let verb = verbs
                .iter()
                .find(|verb| words.iter().any(|word| word == *verb));
            let (status, stdout) = match (*verb.unwrap(), self.leader) {
                ("status", None) => (1, String::new().into_bytes()),
                ("status", Some(leader)) => (
                    0,
                    format!(
                        r#"[{{"Status":{{"header":{{"cluster_id":7,"member_id":1}},"version":"3.6.8","leader":{leader}}}}}]"#
                    )
                    .into_bytes(),
                ),
                ("has-data", _) => (i32::from(!self.has_data), Vec::new()),
                ("save", _) => (
                    0,
                    format!("{} {}\n", self.content.len(), self.digest).into_bytes(),
                ),
                ("read", _) => {
                    let part = words.iter().find_map(|word| word.strip_prefix("part="));
                    let part: usize = part.unwrap().parse().unwrap();
                    (0, self.content.chunks(8 << 20).nth(part).unwrap().to_vec())
                }
                _ => (0, Vec::new()),
            };
            Ok(Output {
                status,
                stdout,
                stderr: Vec::new(),
                log: None,
            })
        }
    }

    fn etcd(name: &str, digest: Option<&str>, has_data: bool) -> (HostName, Arc<dyn Host>) {
        let host = fake(name, 20_000_000, digest, has_data);
        (host.name.clone(), Arc::new(host))
    }

    fn fake(name: &str, size: u32, digest: Option<&str>, has_data: bool) -> FakeHost {
        let content: Vec<u8> = (0..size).map(|n| n.to_le_bytes()[1]).collect();
        let digest = digest.map_or_else(|| Digest::of(&content).hex(), str::to_owned);
        FakeHost {
            name: name.parse().unwrap(),
            content,
            digest,
            has_data,
            leader: None,
        }
    }

    async fn snapshot(hosts: Hosts) -> (Result<Option<u64>, CommandError>, usize) {
        snapshot_after(hosts, |_| false).await
    }

    async fn snapshot_after(
        hosts: Hosts,
        resetting: impl Fn(&HostName) -> bool,
    ) -> (Result<Option<u64>, CommandError>, usize) {
        let state = tempfile::tempdir().unwrap();
        let archive = create(state.path(), Occasion::Reset);
        let saved = archive
            .save_etcd(&cluster(), &hosts, resetting, &Events::silent())
            .await;
        let saved = saved.map(|file| file.map(|file| file.metadata().unwrap().len()));
        (saved, std::fs::read_dir(archive.folder()).unwrap().count())
    }

    fn cluster() -> Cluster {
        kubexm_session::example::cluster_with_etcd("systemd")
    }

    #[tokio::test]
    async fn snapshot_is_copied_from_a_member_that_has_data() {
        let hosts = [etcd("node1", None, false), etcd("node2", None, true)].into();
        assert_eq!(snapshot(hosts).await.0.unwrap(), Some(20_000_000));
        let hosts = [etcd("node1", None, false), etcd("node2", None, false)].into();
        assert_eq!(snapshot(hosts).await.0.unwrap(), None);
    }

    /// A host that was off during a restore has former data, and can precede the others in the cluster file.
    #[tokio::test]
    async fn snapshot_is_of_a_member_with_a_leader_if_there_is_one() {
        let host = |name, size, leader| {
            let mut host = fake(name, size, None, true);
            host.leader = leader;
            (host.name.clone(), Arc::new(host) as Arc<dyn Host>)
        };
        let hosts = [
            host("node1", 1000, None),
            host("node2", 2000, Some(0)),
            host("node3", 3000, Some(1)),
        ];
        let mut hosts: Hosts = hosts.into();
        for size in [3000, 2000, 1000] {
            assert_eq!(snapshot(hosts.clone()).await.0.unwrap(), Some(size));
            hosts.pop_last();
        }
    }

    #[tokio::test]
    async fn reset_stops_without_a_snapshot() {
        let wrong = Some("0000000000000000000000000000000000000000000000000000000000000000");
        let hosts = [etcd("node1", wrong, true), etcd("node2", None, false)].into();
        let (saved, files) = snapshot(hosts).await;
        let error = saved.unwrap_err().to_string();
        assert!(
            error.starts_with("no snapshot of etcd could be taken before the reset:\nnode1: "),
            "{error}"
        );
        assert!(
            error.contains("\nhint: ") && error.contains("--no-snapshot"),
            "{error}"
        );
        assert_eq!(files, 0, "a damaged snapshot stays");
        // Another member has a snapshot.
        let hosts = [etcd("node1", wrong, true), etcd("node2", None, true)].into();
        assert_eq!(snapshot(hosts).await.0.unwrap(), Some(20_000_000));
    }

    /// A reset that was killed between the end of etcd and the removal of its data could never continue.
    #[tokio::test]
    async fn reset_that_began_continues_without_another_snapshot() {
        let wrong = Some("0000000000000000000000000000000000000000000000000000000000000000");
        let hosts = || [etcd("node1", wrong, true), etcd("node2", wrong, true)].into();
        let began = |names: &'static [&str]| move |name: &HostName| names.contains(&name.as_str());
        let (saved, _) = snapshot_after(hosts(), began(&["node1", "node2"])).await;
        assert_eq!(saved.unwrap(), None);
        let (saved, _) = snapshot_after(hosts(), began(&["node1"])).await;
        let error = saved.unwrap_err().to_string();
        assert!(
            error.contains("\nnode2: ") && !error.contains("\nnode1: "),
            "{error}"
        );
        // A member that still runs provides one.
        let (saved, _) = snapshot_after([etcd("node1", None, true)].into(), |_| true).await;
        assert_eq!(saved.unwrap(), Some(20_000_000));
    }

    /// The archive of a removal has only a snapshot, and after a reset nothing opened it. A reset has no identity, and encrypted
    /// older archives for one that may be lost.
    #[test]
    fn archive_has_its_key_and_older_ones_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let encryption = CaEncryption::Passphrase(Secret("phrase".to_owned()));
        let identity = encryption.identity().unwrap();
        certificates::load_or_issue(&cluster(), state, Some(identity)).unwrap();
        let older = state.join(FOLDER).join("20260101T000000Z");
        std::fs::create_dir_all(&older).unwrap();
        std::fs::write(older.join("admin.conf"), "SECRET").unwrap();
        let archive = create(state, Occasion::Removal);
        let file = archive.folder().join("etcd-snapshot.db");
        archive.seal().write(&file, b"DATA").unwrap();
        archive.keep_newest(state, &Events::silent());
        assert!(older.join("admin.conf").exists());
        let opener = Opener::of(archive.folder(), Some(&encryption)).unwrap();
        let opened = opener.open(&file).unwrap();
        assert_eq!(std::io::read_to_string(opened).unwrap(), "DATA");
    }

    /// An archive of a reset had keys in clear text, although an identity encrypted those of the state directory.
    #[tokio::test]
    async fn archive_has_no_secret_in_clear_text_if_keys_of_cas_are_encrypted() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let encryption = CaEncryption::Passphrase(Secret("phrase".to_owned()));
        let identity = encryption.identity().unwrap();
        certificates::load_or_issue(&cluster(), state, Some(identity)).unwrap();
        std::fs::write(state.join("admin.conf"), "client-key-data: SECRET").unwrap();
        std::fs::write(state.join("pki/sa.key"), "SECRET").unwrap();
        let archive = create(state, Occasion::Reset);
        archive.save_state(state).unwrap();
        let hosts = [etcd("node1", None, true)].into();
        let saved = archive
            .save_etcd(&cluster(), &hosts, |_| false, &Events::silent())
            .await;
        let path = archive.folder().join("etcd-snapshot.db");
        assert_eq!(saved.unwrap(), Some(path.with_extension("db.age")));
        for place in ["admin.conf", "pki/sa.key", "etcd-snapshot.db"] {
            let place = archive.folder().join(place);
            assert!(!place.exists(), "{}", place.display());
        }
        // The archive alone, and what opens the keys of CAs, are enough to read it.
        std::fs::remove_dir_all(state.join("pki")).unwrap();
        let opener = Opener::of(archive.folder(), Some(&encryption)).unwrap();
        let read = |name: &str| {
            let mut content = Vec::new();
            let mut reader = opener.open(&archive.folder().join(name)).unwrap();
            reader.read_to_end(&mut content).unwrap();
            content
        };
        assert_eq!(read("pki/sa.key"), b"SECRET");
        assert_eq!(read("etcd-snapshot.db").len(), 20_000_000);
    }

    #[test]
    fn older_archives_are_removed_but_not_those_of_an_upgrade_that_has_begun() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let names: Vec<String> = (1..=8).map(|day| format!("2026010{day}T000000Z")).collect();
        for name in names.iter().map(String::as_str).chain(["my-copy"]) {
            std::fs::create_dir_all(state.join(FOLDER).join(name).join("pki")).unwrap();
        }
        let version = |text: &str| text.parse::<kubexm_types::Version>().unwrap();
        let mut record = UpgradeRecord::new(&version("1.35.4"), &version("1.36.3"));
        // The state directory has moved since.
        record.add(
            &version("1.36.3"),
            Path::new("/old").join(FOLDER).join(&names[0]),
        );
        record.save(state).unwrap();
        let archive = create(state, Occasion::Removal);
        // Without the record, it is not known which ones a rollback needs.
        let text = std::fs::read(state.join(UpgradeRecord::FILE)).unwrap();
        std::fs::write(state.join(UpgradeRecord::FILE), "{").unwrap();
        archive.keep_newest(state, &Events::silent());
        assert!(
            names
                .iter()
                .all(|name| state.join(FOLDER).join(name).exists())
        );
        std::fs::write(state.join(UpgradeRecord::FILE), text).unwrap();
        archive.keep_newest(state, &Events::silent());
        let is_kept = |name: &str| state.join(FOLDER).join(name).exists();
        let kept: Vec<bool> = names.iter().map(|name| is_kept(name)).collect();
        assert_eq!(
            kept,
            [true, false, false, false, true, true, true, true],
            "{kept:?}"
        );
        assert!(is_kept("my-copy") && archive.folder().exists());
    }

    /// The hint was to start etcd.
    #[tokio::test]
    async fn disk_of_this_machine_is_not_a_failure_of_etcd() {
        let state = tempfile::tempdir().unwrap();
        let archive = create(state.path(), Occasion::Reset);
        std::fs::remove_dir(archive.folder()).unwrap();
        let hosts = [etcd("node1", None, true)].into();
        let saved = archive
            .save_etcd(&cluster(), &hosts, |_| true, &Events::silent())
            .await;
        let error = saved.unwrap_err().to_string();
        let file = archive.folder().join("etcd-snapshot.db");
        assert!(
            error.starts_with(&format!("cannot write {}: ", file.display())),
            "{error}"
        );
    }

    #[test]
    fn state_is_copied_with_private_modes() {
        let state = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(state.path().join("pki/etcd")).unwrap();
        std::fs::write(state.path().join("pki/etcd/ca.key"), "key").unwrap();
        std::fs::write(state.path().join("admin.conf"), "config").unwrap();
        let archive = create(state.path(), Occasion::Reset);
        archive.save_state(state.path()).unwrap();
        let key = archive.folder().join("pki/etcd/ca.key");
        assert_eq!(std::fs::read_to_string(&key).unwrap(), "key");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&key), mode(archive.folder())), (0o600, 0o700));
    }
}
