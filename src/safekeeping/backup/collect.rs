//! The files of a backup besides the snapshot: configuration of hosts, and the state directory.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;

use super::directory::SUFFIX;
use super::gaps::ControlPlanes;
use super::manifest::{BackedUpFile, CLUSTER_FILE, STATE, host_files};
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_config::load_balancer;
use kubexm_host::{Command, Limit};
use kubexm_scripts::steps::READ_FILES;
use kubexm_session::authorities::Known;
use kubexm_session::begun::{MoveRecord, RestoreRecord, StateRecord};
use kubexm_session::session::Hosts;
use kubexm_session::{CommandError, FileError, authorities};
use kubexm_types::event::Events;
use kubexm_types::{AtomicFile, Digest, HostName, Message, WarningKind, write_atomic};

/// The files on hosts that describe the cluster, besides those of load balancers. A path of a program that a host does not have does
/// not exist.
const PATHS: [&str; 12] = [
    "/etc/kubernetes",
    "/etc/kubexm",
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/etc/systemd/system/etcd.service",
    "/etc/systemd/system/kube*.service",
    "/etc/systemd/system/kube*.service.d",
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/instance-config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/lib/kubexm/cluster",
    "/var/lib/kubexm/receipt.jsonl",
];
/// Entries of the state directory that a backup does not contain: other backups, logs, and what belongs to a running command.
const NOT_KEPT: [&str; 6] = [
    "archive",
    "backups",
    "logs",
    "lock",
    RestoreRecord::FILE,
    MoveRecord::FILE,
];
/// The directory of certificates and keys in the state directory.
const PKI: &str = "pki";
/// The largest file of the state directory that a backup contains, in bytes. kubexm writes no larger one.
pub(super) const LARGEST: u64 = 64 << 20;
/// The largest size of all these files, in bytes. They are in memory, and a link can lead to a large directory.
const LARGEST_STATE: u64 = 1 << 30;
/// The largest size of all files of a backup that are in memory, in bytes: those of the state directory and of hosts.
pub(super) const LARGEST_ALL: u64 = 2 * LARGEST_STATE;
/// The least size that a file counts with, in bytes.
const SMALLEST: u64 = 4 << 10;

/// A file of a backup that is in memory. It may be secret.
pub struct Collected {
    pub path: String,
    pub content: Vec<u8>,
}

impl Collected {
    /// Returns what the manifest states about the file.
    pub(super) fn entry(&self) -> BackedUpFile {
        BackedUpFile {
            path: self.path.clone(),
            size: self.content.len() as u64,
            digest: Digest::of(&self.content),
        }
    }
}

/// Returns the hosts whose configuration a backup contains: all but workers, which an install creates again.
pub fn kept_hosts(cluster: &Cluster) -> Vec<&HostName> {
    let roles = &cluster.roles;
    let others = [&roles.etcd, &roles.load_balancer, &roles.registry];
    let mut kept: Vec<&HostName> = roles.control_plane.iter().collect();
    for name in others.into_iter().flatten() {
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    kept
}

/// Reads the configuration of hosts. Reports hosts that cannot be reached.
///
/// # Errors
/// A host was lost, or refuses to provide its files.
pub async fn of_hosts(
    cluster: &Cluster,
    hosts: &Hosts,
    events: &Events,
) -> Result<Vec<Collected>, CommandError> {
    let reads = kept_hosts(cluster).into_iter().map(async |name| {
        let Some(host) = hosts.get(name) else {
            events.warn(
                WarningKind::BackupContent,
                format!("{name}: cannot be reached; the backup has nothing of its configuration"),
            );
            return Ok(None);
        };
        let of_balancers = load_balancer::all_properties().filter_map(|own| own.own_config);
        let command = Command::from_script(READ_FILES, PATHS.into_iter().chain(of_balancers))
            .describe("read the configuration of the host")
            .limit(Limit::DEFAULT)
            .secret_output();
        let output = host.run(command).await?;
        if !output.success() {
            let complaint = output.complaint();
            return Err(CommandError::step(format!(
                "{name}: cannot read the configuration of the host: {complaint}"
            )));
        }
        Ok(Some(Collected {
            path: host_files(name),
            content: output.stdout,
        }))
    });
    let read: Result<Vec<_>, CommandError> = join_all(reads).await.into_iter().collect();
    Ok(read?.into_iter().flatten().collect())
}

/// Returns the control planes among hosts whose files were read, and which authorities of kubeadm are missing on each.
///
/// # Errors
/// A host printed something else than an archive, or has other authorities than the state directory, whose files are among
/// `files`.
pub(super) fn control_planes<'a>(
    cluster: &'a Cluster,
    files: &[Collected],
) -> Result<ControlPlanes<'a>, CommandError> {
    let runs_etcd = matches!(cluster.etcd, Etcd::Kubeadm { .. });
    let mut known = Known::default();
    for file in files {
        if let Some(name) = file.path.strip_prefix(STATE) {
            known
                .add(name, &file.content)
                .map_err(CommandError::defect)?;
        }
    }
    let mut found = Vec::new();
    for name in &cluster.roles.control_plane {
        let path = host_files(name);
        let Some(archive) = files.iter().find(|file| file.path == path) else {
            continue;
        };
        let own = authorities::of_host(archive.content.as_slice(), runs_etcd);
        let own = own.map_err(|error| {
            CommandError::step(format!(
                "{name}: cannot read the configuration of the host: tar printed no archive: {error}"
            ))
        })?;
        if let Some(problem) = own.problem(&known) {
            let text = format!("{name}: {}/{problem}", authorities::DIRECTORY);
            return Err(CommandError::refused(text).hint(
                "compare the file with that of the other control planes; a restore from this backup would give a new cluster \
                 other authorities",
            ));
        }
        found.push((name, own.missing(runs_etcd)));
    }
    Ok(found)
}

/// Reads the cluster file and the state directory, except for backups, which `output` is the directory of. Returns the files, and
/// what cannot be read. Warns about files that kubexm has not written and that a backup does not contain.
///
/// # Errors
/// The cluster file or the state directory cannot be read, or the state directory is too large.
pub(super) fn of_controller(
    cluster: &Path,
    state: &Path,
    output: &Path,
    events: &Events,
) -> Result<(Vec<Collected>, Vec<Message>), CommandError> {
    let unreadable = |path: &Path, error| FileError::io("back up", path, &error);
    let content = std::fs::read(cluster).map_err(|error| unreadable(cluster, error))?;
    let mut files = vec![Collected {
        path: CLUSTER_FILE.to_owned(),
        content,
    }];
    let mut listing = Listing::of(state, output).map_err(|error| unreadable(state, error))?;
    if listing.size > LARGEST_STATE {
        let cause = format!("it has more than {LARGEST_STATE} bytes");
        let error = FileError::new("back up the state directory", state, cause);
        let hint = "remove files and links from it that do not belong to kubexm";
        return Err(error.hint(hint).into());
    }
    for warning in listing.warnings {
        events.warn(WarningKind::BackupContent, warning);
    }
    listing.found.sort();
    for path in listing.found {
        let source = state.join(&path);
        match std::fs::read(&source) {
            Ok(content) => files.push(Collected {
                path: format!("{STATE}{}", path.display()),
                content,
            }),
            Err(error) => listing.gaps.extend(unreadable_state(&source, &error)),
        }
    }
    Ok((files, listing.gaps))
}

/// Returns the gap of a backup without a file or directory of the state directory; `None` if it does not exist any more, as the
/// temporary file of another command. A link that leads to nothing exists.
fn unreadable_state(path: &Path, error: &io::Error) -> Option<Message> {
    let is_gone = error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err();
    if is_gone {
        return None;
    }
    let path = path.display();
    let text = format!("{path} cannot be read: {error}");
    let hint = "make it readable for the user who runs kubexm; if it is a link, make its target available; or remove it if it \
                does not belong to kubexm";
    Some(Message::new(text).hint(hint))
}

/// Identifies a directory, also behind a link: the numbers of its device and of its inode.
fn place(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// The files of a state directory.
struct Listing<'a> {
    state: &'a Path,
    /// The directory of backups, if it exists.
    output: Option<(u64, u64)>,
    /// Paths below the state directory.
    found: Vec<PathBuf>,
    /// Their size in bytes.
    size: u64,
    gaps: Vec<Message>,
    warnings: Vec<Message>,
}

impl<'a> Listing<'a> {
    fn of(state: &'a Path, output: &Path) -> io::Result<Self> {
        let mut listing = Self {
            state,
            output: std::fs::metadata(output).ok().as_ref().map(place),
            found: Vec::new(),
            size: 0,
            gaps: Vec::new(),
            warnings: Vec::new(),
        };
        let above = [place(&std::fs::metadata(state)?)];
        listing.list(Path::new(""), &above)?;
        Ok(listing)
    }

    /// Adds the files of a directory. `above` has the places of the directory and of those above it.
    fn list(&mut self, below: &Path, above: &[(u64, u64)]) -> io::Result<()> {
        for entry in std::fs::read_dir(self.state.join(below))? {
            let name = entry?.file_name();
            let path = below.join(&name);
            let name = name.to_string_lossy();
            let is_top = below.as_os_str().is_empty();
            let is_backup = name.ends_with(SUFFIX) || name.starts_with(AtomicFile::PREFIX);
            let is_other = NOT_KEPT.iter().any(|other| name == *other) || name.starts_with('.');
            let is_left_out = is_backup || (is_top && is_other);
            if !is_left_out {
                self.add(path, above);
            }
            // The rest is not listed: a link can lead to all files of this machine.
            if self.size > LARGEST_STATE {
                break;
            }
        }
        Ok(())
    }

    /// Adds a file, or the files of a directory. It goes through links: a site can keep keys on another disk.
    fn add(&mut self, path: PathBuf, above: &[(u64, u64)]) {
        let source = self.state.join(&path);
        let about = match std::fs::metadata(&source) {
            Ok(about) => about,
            Err(error) => return self.gaps.extend(unreadable_state(&source, &error)),
        };
        if about.is_dir() {
            let place = place(&about);
            // It never hides keys: among them, only the names of backups count.
            let is_output = self.output == Some(place) && !path.starts_with(PKI);
            // A link to a directory above would have no end, and its files are in the backup already.
            if is_output || above.contains(&place) {
                return;
            }
            let above = [above, &[place]].concat();
            if let Err(error) = self.list(&path, &above) {
                self.gaps.extend(unreadable_state(&source, &error));
            }
        } else if !about.is_file() {
            let cause = "it is not a file or a directory";
            self.warnings.push(left_out(&source, cause));
        } else if about.len() > LARGEST {
            let cause = format!("it has more than {LARGEST} bytes");
            self.warnings.push(left_out(&source, &cause));
        } else {
            self.size += about.len().max(SMALLEST);
            self.found.push(path);
        }
    }
}

fn left_out(path: &Path, cause: &str) -> Message {
    let text = format!("the backup does not contain {}: {cause}", path.display());
    Message::new(text).hint("move it out of the state directory")
}

/// Writes a file of the state directory of a backup to a directory.
///
/// # Errors
/// The path leads out of the directory, or the file system refuses the file.
pub fn put_back(state: &Path, path: &str, content: &[u8]) -> io::Result<()> {
    let parts = Path::new(path).components();
    let mut is_normal = parts.map(|part| matches!(part, std::path::Component::Normal(_)));
    if !is_normal.all(|normal| normal) {
        return Err(io::Error::other(format!(
            "'{path}' is not a path of a state directory"
        )));
    }
    let target = state.join(path);
    if let Some(folder) = target.parent() {
        kubexm_session::private_directory::create(folder, "create the state directory")
            .map_err(|error| io::Error::other(error.to_string()))?;
    }
    write_atomic(&target, content, 0o600)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::sync::{Arc, Mutex};

    use super::super::authorities::tests::of_kubeadm;
    use super::*;
    use kubexm_session::example::{Site, cluster};
    use kubexm_types::event::{Event, Listener};

    /// Returns the paths of the files of a backup that has no gap.
    fn paths(cluster: &Path, state: &Path, output: &Path) -> Vec<String> {
        let (files, gaps) = of_controller(cluster, state, output, &Events::silent()).unwrap();
        assert_eq!(gaps, []);
        files.into_iter().map(|file| file.path).collect()
    }

    #[derive(Default)]
    struct Warnings(Mutex<Vec<String>>);

    impl Listener for Warnings {
        fn on(&self, event: &Event) {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }

    /// They were left out without a word.
    #[test]
    fn links_in_the_state_directory_are_followed_and_omissions_are_reported() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, state) = (folder.path(), state.path());
        let cluster = folder.join("cluster.yaml");
        for path in ["cluster.yaml", "keys/ca.key", "elsewhere.key"] {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        symlink(folder.join("keys"), state.join("pki")).unwrap();
        symlink(folder.join("elsewhere.key"), state.join("a.key")).unwrap();
        let gone = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(unreadable_state(&state.join("gone"), &gone), None);
        // It leads to itself.
        symlink(state, folder.join("keys/above")).unwrap();
        let kept = ["cluster.yaml", "state/a.key", "state/pki/ca.key"];
        assert_eq!(paths(&cluster, state, folder), kept);
        symlink("/missing", state.join("b.key")).unwrap();
        let large = std::fs::File::create(state.join("large")).unwrap();
        large.set_len(LARGEST + 1).unwrap();
        let _socket = UnixListener::bind(state.join("socket")).unwrap();
        let warnings = Arc::new(Warnings::default());
        let events = Events::new(Arc::<Warnings>::clone(&warnings));
        let (files, gaps) = of_controller(&cluster, state, folder, &events).unwrap();
        assert_eq!(files.len(), kept.len());
        let [gap] = gaps.as_slice() else {
            panic!("{gaps:?}");
        };
        let expected = format!("{}/b.key cannot be read: ", state.display());
        assert!(gap.text.starts_with(&expected), "{gap}");
        let mut warnings = warnings.0.lock().unwrap().clone();
        warnings.sort();
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("/large: it has more than 67108864 bytes"));
        assert!(warnings[1].contains("/socket: it is not a file"));
    }

    #[test]
    fn state_directory_that_is_too_large_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let cluster = state.path().join("cluster.yaml");
        std::fs::write(&cluster, "x").unwrap();
        for name in 0..16 {
            let file = std::fs::File::create(state.path().join(name.to_string())).unwrap();
            file.set_len(LARGEST).unwrap();
        }
        let output = state.path().join("backups");
        let read = of_controller(&cluster, state.path(), &output, &Events::silent());
        let error = read.err().unwrap().to_string();
        assert!(
            error.contains("it has more than 1073741824 bytes\nhint: "),
            "{error}"
        );
    }

    /// The archive had only the link, and the backup counted as complete.
    #[tokio::test]
    async fn authorities_on_another_disk_are_read_and_missing_ones_are_named() {
        let site = Site::new();
        let at = |path: &str| site.at("node1", path);
        for (name, text) in of_kubeadm() {
            let path = at(&format!("/srv/pki/{name}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(at("/etc/kubernetes")).unwrap();
        symlink("/srv/pki", at("/etc/kubernetes/pki")).unwrap();
        let cluster = cluster();
        let missing = async || {
            let files = of_hosts(&cluster, &site.hosts, &site.events).await.unwrap();
            let found = control_planes(&cluster, &files).unwrap();
            let [(host, missing)] = found.as_slice() else {
                panic!("{found:?}");
            };
            assert_eq!(host.as_str(), "node1");
            missing.join(", ")
        };
        assert_eq!(missing().await, "");
        std::fs::remove_file(at("/srv/pki/etcd/ca.key")).unwrap();
        std::fs::rename(at("/srv/pki/ca.key"), at("/srv/ca.key")).unwrap();
        symlink("/srv/ca.key", at("/srv/pki/ca.key")).unwrap();
        assert_eq!(missing().await, "ca.key (a symbolic link), etcd/ca.key");
        assert_eq!(control_planes(&cluster, &[]).unwrap(), []);
    }

    #[test]
    fn state_is_kept_without_backups_logs_and_locks() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cluster = folder.path().join("cluster.yaml");
        std::fs::write(&cluster, "kind: Cluster").unwrap();
        for path in [
            "pki/kubernetes/ca.key",
            "pki/a.tar.zst.age",
            "pki/.kubexm-partial-1",
            "cluster.json",
            "a.tar.zst.age",
            "other/a-20260101T000000Z.tar.zst.age",
            "other/notes",
            "backups/old",
            "logs/node1.log",
            "lock",
            "archive/20260101/pki/x",
        ] {
            let path = state.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let kept = [
            "cluster.yaml",
            "state/cluster.json",
            "state/pki/kubernetes/ca.key",
        ];
        let output = |name: &str| paths(&cluster, state.path(), &state.path().join(name));
        assert_eq!(output("other"), kept);
        let with_notes = [&kept[..2], &["state/other/notes"], &kept[2..]].concat();
        // No output directory hides keys or the whole state.
        for name in ["", "pki", "missing"] {
            assert_eq!(output(name), with_notes, "{name}");
        }
        let other = tempfile::tempdir().unwrap();
        put_back(other.path(), "pki/kubernetes/ca.key", b"x").unwrap();
        assert!(other.path().join("pki/kubernetes/ca.key").exists());
        for wrong in ["../x", "/x", "a/../../x"] {
            put_back(other.path(), wrong, b"x").unwrap_err();
        }
    }
}
