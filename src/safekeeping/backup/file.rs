//! The file of a backup: a tar archive, compressed with zstd, encrypted in the format of age. The programs `age`, `zstd` and
//! `tar` can open it without kubexm. The first file of the archive is the manifest, which has the digests of all others. The second
//! one is the signature of the manifest.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use super::collect;
use super::manifest::{FORMAT, MANIFEST, Manifest, PROGRAMS, SIGNED, SNAPSHOT, STATE};
use super::origin::{Evidence, SIGNATURE};
use kubexm_host::piped::piped;
use kubexm_pki::{EncryptedWriter, KeyIdentity, OpenError, Recipients};
use kubexm_session::{CommandError, FileError};
use kubexm_types::{AtomicFile, DigestReader};

/// zstd's level. A snapshot of etcd becomes about five times smaller with it.
const LEVEL: i32 = 3;
/// The largest manifest in bytes.
const LARGEST_MANIFEST: u64 = 16 << 20;
/// The mode of a backup, which only its owner can read.
const MODE: u32 = 0o600;
/// The size in bytes of the blocks of a tar archive.
const BLOCK: u64 = 512;
const OTHER: &str = "use another backup: `kubexm backup list` prints those of a directory";

/// A backup that is written.
pub(super) struct Writer {
    output: zstd::Encoder<'static, EncryptedWriter<AtomicFile>>,
}

impl Writer {
    /// Creates the file. It gets its name when it is complete.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(super) fn create(path: &Path, recipients: &Recipients) -> io::Result<Self> {
        let file = AtomicFile::create(path, MODE)?;
        let encrypted = recipients.encrypt(file)?;
        let output = zstd::Encoder::new(encrypted, LEVEL)?;
        Ok(Self { output })
    }

    /// Begins a file. Exactly `size` bytes and [`Writer::end`] must follow.
    pub(super) fn begin(&mut self, path: &str, size: u64) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_path(path)?;
        header.set_size(size);
        header.set_mode(MODE);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        self.output.write_all(header.as_bytes())
    }

    /// Ends a file of this size.
    pub(super) fn end(&mut self, size: u64) -> io::Result<()> {
        let padding = size.next_multiple_of(BLOCK) - size;
        io::copy(&mut io::repeat(0).take(padding), &mut self.output).map(|_| ())
    }

    /// Adds a file that is in memory.
    pub(super) fn add(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        let size = content.len() as u64;
        self.begin(path, size)?;
        self.output.write_all(content)?;
        self.end(size)
    }

    /// Writes the end, and gives the file its name.
    pub(super) fn commit(mut self) -> io::Result<()> {
        self.output.write_all(&[0; 2 * BLOCK as usize])?;
        self.output.finish()?.finish()?.commit()
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Why a backup cannot be read.
fn unreadable(path: &Path, cause: impl std::fmt::Display) -> CommandError {
    let error = FileError::new("read the backup", path, cause);
    error.hint(OTHER).into()
}

fn damaged(path: &Path, error: &io::Error) -> CommandError {
    unreadable(
        path,
        format!("it is damaged, or its end is missing: {error}"),
    )
}

fn unopened(path: &Path, error: &OpenError) -> CommandError {
    let hint = match error {
        OpenError::NeedsPassphrase => "pass --passphrase-file, or set KUBEXM_BACKUP_PASSPHRASE",
        OpenError::NeedsIdentity => "pass the identity file with --identity",
        OpenError::WrongPassphrase => "pass the passphrase with which the backup was created",
        OpenError::WrongIdentity => {
            "pass the identity of a public key with which the backup was created"
        }
        OpenError::Format | OpenError::Other(_) => OTHER,
    };
    FileError::new("open the backup", path, error)
        .hint(hint)
        .into()
}

/// A file that is decrypted and decompressed while it is read.
type Content = tar::Archive<Box<dyn Read>>;

/// Checks that there is a file, before the user is asked for what opens it.
///
/// # Errors
/// The file does not exist, cannot be reached, or is a directory.
pub fn check_file(path: &Path) -> Result<(), CommandError> {
    let about = std::fs::metadata(path).map_err(|error| not_opened(path, &error))?;
    if about.is_dir() {
        Err(not_opened(path, &io::ErrorKind::IsADirectory.into()).into())
    } else {
        Ok(())
    }
}

fn not_opened(path: &Path, error: &io::Error) -> FileError {
    let refused = FileError::io("open the backup", path, error);
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            refused.hint("`kubexm backup list DIR` prints the backups of a directory")
        }
        _ => refused,
    }
}

fn open(path: &Path, identity: &KeyIdentity) -> Result<Content, CommandError> {
    let file = File::open(path).map_err(|error| not_opened(path, &error))?;
    let reader = identity
        .decrypt_stream(BufReader::new(file))
        .map_err(|error| unopened(path, &error))?;
    let reader = zstd::Decoder::new(reader).map_err(|error| damaged(path, &error))?;
    Ok(tar::Archive::new(Box::new(reader)))
}

fn parse(path: &Path, text: &[u8]) -> Result<Manifest, CommandError> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: u32,
    }
    let wrong =
        |error: serde_json::Error| unreadable(path, format!("its manifest is wrong: {error}"));
    let format: Format = serde_json::from_slice(text).map_err(wrong)?;
    if format.format > FORMAT {
        let cause = format!(
            "it has the format {}, and this version of kubexm reads up to {FORMAT}",
            format.format
        );
        let error = FileError::new("read the backup", path, cause);
        return Err(error.hint("use the version of kubexm that wrote it").into());
    }
    serde_json::from_slice(text).map_err(wrong)
}

/// Returns the manifest. Reads the beginning of the file only.
///
/// # Errors
/// The file cannot be decrypted, or does not begin as a backup.
pub(super) fn manifest(path: &Path, identity: &KeyIdentity) -> Result<Manifest, CommandError> {
    let mut archive = open(path, identity)?;
    let mut entries = entries(&mut archive).map_err(|error| damaged(path, &error))?;
    Ok(first(path, &mut entries)?.0)
}

/// Returns the entries of a backup as [`Writer`] writes them. The names and sizes of extended entries, which it does not write, would
/// be read into memory without a limit.
fn entries(archive: &mut Content) -> io::Result<tar::Entries<'_, Box<dyn Read>>> {
    Ok(archive.entries()?.raw(true))
}

/// Reads the manifest, and the signature that follows it.
fn first(
    path: &Path,
    entries: &mut tar::Entries<'_, Box<dyn Read>>,
) -> Result<(Manifest, Evidence), CommandError> {
    let mut text_of = |name: &str, otherwise: &str| {
        let entry = entries
            .next()
            .ok_or_else(|| unreadable(path, "it is empty"))?;
        let entry = entry.map_err(|error| damaged(path, &error))?;
        if entry.path_bytes().as_ref() != name.as_bytes() {
            return Err(unreadable(path, otherwise));
        }
        let mut text = Vec::new();
        let read = entry.take(LARGEST_MANIFEST).read_to_end(&mut text);
        read.map_err(|error| damaged(path, &error))?;
        Ok(text)
    };
    let text = text_of(MANIFEST, "it does not begin with the manifest of a backup")?;
    let manifest = parse(path, &text)?;
    let signature = if manifest.format >= SIGNED {
        let signature = text_of(SIGNATURE, "it has no signature of its manifest")?;
        Some(String::from_utf8_lossy(&signature).into_owned())
    } else {
        None
    };
    let evidence = Evidence {
        manifest: text,
        signature,
    };
    Ok((manifest, evidence))
}

/// Why a part of a backup was not used.
#[derive(Debug)]
pub enum VisitError {
    /// The backup cannot be read: it is damaged.
    Backup(io::Error),
    /// Something else failed, such as a disk to which a file is copied.
    Other(CommandError),
}

impl From<io::Error> for VisitError {
    fn from(error: io::Error) -> Self {
        Self::Backup(error)
    }
}

/// Reads the whole file, and compares every digest with the manifest. `decide` gets the manifest and what shows who made the backup,
/// before anything else is read. `visit` gets the manifest and the name of each file, and may read a part of it. Returns the manifest
/// and the decision.
///
/// # Errors
/// The file cannot be decrypted, is damaged or incomplete, or `decide` or `visit` fails.
pub fn read<T>(
    path: &Path,
    identity: &KeyIdentity,
    decide: impl FnOnce(&Manifest, &Evidence) -> Result<T, CommandError>,
    mut visit: impl FnMut(&Manifest, &str, &mut dyn Read) -> Result<(), VisitError>,
) -> Result<(Manifest, T), CommandError> {
    let mut archive = open(path, identity)?;
    let failed = |error: io::Error| damaged(path, &error);
    let mut entries = entries(&mut archive).map_err(failed)?;
    let (manifest, evidence) = first(path, &mut entries)?;
    let decision = decide(&manifest, &evidence)?;
    if let Some(file) = too_large(&manifest) {
        return Err(unreadable(path, format!("{file} is too large")));
    }
    for file in &manifest.files {
        let missing = || unreadable(path, format!("it does not contain {}", file.path));
        let entry = entries.next().ok_or_else(missing)?.map_err(failed)?;
        if entry.path_bytes().as_ref() != file.path.as_bytes() {
            return Err(missing());
        }
        // What `visit` reads into memory is not more than the manifest states.
        let entry = entry.take(file.size.saturating_add(1));
        let mut content = DigestReader::new(entry);
        visit(&manifest, &file.path, &mut content).map_err(|error| match error {
            VisitError::Backup(error) => failed(error),
            VisitError::Other(error) => error,
        })?;
        io::copy(&mut content, &mut io::sink()).map_err(failed)?;
        let (digest, size) = content.finish();
        if (digest, size) != (file.digest, file.size) {
            let cause = format!(
                "{} has {size} bytes and the digest {digest} instead of {} bytes and {}",
                file.path, file.size, file.digest
            );
            return Err(unreadable(path, cause));
        }
    }
    if entries.next().is_some() {
        return Err(unreadable(
            path,
            "it contains a file that its manifest does not name",
        ));
    }
    // A file that was cut off fails at its end.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(failed)?;
    Ok((manifest, decision))
}

/// Returns the first file that is larger than kubexm writes one, apart from the snapshot and programs, which are not read into memory.
fn too_large(manifest: &Manifest) -> Option<&str> {
    let is_in_memory = |path: &str| path != SNAPSHOT && !path.starts_with(PROGRAMS);
    let mut left = collect::LARGEST_ALL;
    let mut files = manifest.files.iter();
    let found = files.find(|file| {
        if !is_in_memory(&file.path) {
            return false;
        }
        let rest = left.checked_sub(file.size);
        left = rest.unwrap_or_default();
        rest.is_none() || file.path.starts_with(STATE) && file.size > collect::LARGEST
    });
    found.map(|file| file.path.as_str())
}

/// Returns a file of the backup as a stream, which a thread decrypts.
///
/// # Errors
/// The system cannot create a pipe. Errors of the file are those of the stream.
pub fn stream(
    path: &Path,
    identity: &KeyIdentity,
    wanted: &str,
) -> io::Result<Box<dyn Read + Send>> {
    let (path, identity, wanted) = (path.to_owned(), identity.clone(), wanted.to_owned());
    piped(move |mut output| {
        let mut archive =
            open(&path, &identity).map_err(|error| io::Error::other(error.to_string()))?;
        for entry in entries(&mut archive)? {
            let mut entry = entry?;
            if entry.path_bytes().as_ref() == wanted.as_bytes() {
                return io::copy(&mut entry, &mut output).map(|_| ());
            }
        }
        Err(io::Error::other(format!("the backup has no {wanted}")))
    })
}

#[cfg(test)]
pub mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::manifest::{BackedUpFile, EtcdSnapshot};
    use super::*;
    use kubexm_types::Digest;

    pub fn example(files: &[(&str, Vec<u8>)]) -> Manifest {
        Manifest {
            format: FORMAT,
            cluster: serde_json::from_str(
                r#"{"id": "0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11", "name": "example", "created": "2026-01-31T12:00:00Z"}"#,
            )
            .unwrap(),
            created: kubexm_types::UtcTime::parse("2026-02-01T12:00:00Z").unwrap(),
            kubexm: "0.1.0".to_owned(),
            kubernetes: "1.36.3".to_owned(),
            deployment: "kubeadm".to_owned(),
            etcd: EtcdSnapshot {
                deployment: "kubeadm".to_owned(),
                version: "3.6.8".to_owned(),
                member: "node2".parse().unwrap(),
                quorum: true,
                members: Vec::new(),
                cluster_id: "1".to_owned(),
                revision: 1234,
                hash: 1,
                keys: 321,
            },
            hosts: vec!["node1".parse().unwrap()],
            control_planes: None,
            files: files
                .iter()
                .map(|(path, content)| BackedUpFile {
                    path: (*path).to_owned(),
                    size: content.len() as u64,
                    digest: Digest::of(content),
                })
                .collect(),
        }
    }

    pub(in crate::backup) fn write(
        path: &Path,
        recipients: &Recipients,
        manifest: &Manifest,
        files: &[(&str, Vec<u8>)],
    ) {
        let mut writer = Writer::create(path, recipients).unwrap();
        writer
            .add(MANIFEST, &serde_json::to_vec(manifest).unwrap())
            .unwrap();
        writer.add(SIGNATURE, b"of another program").unwrap();
        for (name, content) in files {
            writer.add(name, content).unwrap();
        }
        writer.commit().unwrap();
    }

    pub(in crate::backup) fn identity() -> KeyIdentity {
        // Of a test only.
        let text = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
        KeyIdentity::parse(text).unwrap()
    }

    fn files() -> Vec<(&'static str, Vec<u8>)> {
        let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
        vec![
            ("hosts/node1.tar", b"files".to_vec()),
            ("etcd/snapshot.db", content),
        ]
    }

    #[test]
    fn backup_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let (identity, files) = (identity(), files());
        let manifest = example(&files);
        write(&path, &identity.clone().into(), &manifest, &files);
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        assert_eq!(super::manifest(&path, &identity).unwrap(), manifest);
        let mut seen = Vec::new();
        let visit = |_: &Manifest, path: &str, content: &mut dyn Read| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            seen.push((path.to_owned(), bytes));
            Ok(())
        };
        let read = read(&path, &identity, |_, _| Ok(()), visit);
        assert_eq!(read.unwrap().0, manifest);
        let expected: Vec<_> = files
            .iter()
            .map(|(path, bytes)| ((*path).to_owned(), bytes.clone()))
            .collect();
        assert!(seen == expected);
        let mut bytes = Vec::new();
        let mut stream = stream(&path, &identity, "hosts/node1.tar").unwrap();
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"files");
        let mut stream = super::stream(&path, &identity, "other").unwrap();
        stream.read_to_end(&mut bytes).unwrap_err();
    }

    #[test]
    fn path_without_a_backup_is_refused_before_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("nofile");
        let start = format!("cannot open the backup {}: No such file", absent.display());
        let refused = check_file(&absent).unwrap_err().to_string();
        assert!(refused.starts_with(&start), "{refused}");
        let opened = super::manifest(&absent, &identity()).unwrap_err();
        assert_eq!(opened.to_string(), refused);
        let directory = check_file(folder.path()).unwrap_err().to_string();
        assert!(directory.contains(": is a directory\n"), "{directory}");
        for refused in [refused, directory] {
            let hint = "\nhint: `kubexm backup list DIR` prints the backups of a directory";
            assert!(refused.ends_with(hint), "{refused}");
        }
        std::fs::write(&absent, "").unwrap();
        check_file(&absent).unwrap();
    }

    #[test]
    fn damaged_backups_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let (identity, files) = (identity(), files());
        let check = || {
            let read = read(&path, &identity, |_, _| Ok(()), |_, _, _| Ok(()));
            let error = read.unwrap_err().to_string();
            assert!(error.contains("\nhint: "), "{error}");
            error
        };
        let mut manifest = example(&files);
        write(&path, &identity.clone().into(), &manifest, &files);
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 100, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            check();
        }
        manifest.files[1].digest = Digest::of(b"other");
        write(&path, &identity.clone().into(), &manifest, &files);
        assert!(check().contains("etcd/snapshot.db has 1200000 bytes"));
        manifest.files.truncate(1);
        write(&path, &identity.clone().into(), &manifest, &files);
        assert!(check().contains("a file that its manifest does not name"));
        write(
            &path,
            &identity.clone().into(),
            &example(&files),
            &files[..1],
        );
        assert!(check().contains("does not contain etcd/snapshot.db"));
        manifest.format = FORMAT + 1;
        write(&path, &identity.clone().into(), &manifest, &files);
        assert!(check().contains("this version of kubexm reads up to 2"));
    }

    /// Who has the public key of age could exhaust the memory of this machine.
    #[test]
    fn forged_backup_is_refused_before_its_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let (identity, files) = (identity(), files());
        let mut manifest = example(&files);
        let refused = |manifest: &Manifest, is_own| {
            write(&path, &identity.clone().into(), manifest, &files);
            let decide = |_: &Manifest, evidence: &Evidence| {
                assert_eq!(evidence.signature.as_deref(), Some("of another program"));
                if is_own {
                    Ok(())
                } else {
                    Err(CommandError::refused("of another program"))
                }
            };
            let read = read(&path, &identity, decide, |_, _, _| panic!("it is read"));
            read.unwrap_err().to_string()
        };
        assert_eq!(refused(&manifest, false), "of another program");
        manifest.files[0].size = collect::LARGEST_ALL + 1;
        let large = refused(&manifest, true);
        assert!(
            large.contains("hosts/node1.tar is too large\nhint: "),
            "{large}"
        );
        manifest.files[0].path = "state/x".to_owned();
        manifest.files[0].size = collect::LARGEST + 1;
        assert!(refused(&manifest, true).contains("state/x is too large"));
        let mut manifest = example(&files);
        manifest.files[0].size = 0;
        let visit = |_: &Manifest, _: &str, content: &mut dyn Read| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            assert_eq!(bytes.len(), 1);
            Ok(())
        };
        write(&path, &identity.clone().into(), &manifest, &files);
        let read = read(&path, &identity, |_, _| Ok(()), visit);
        let other = read.unwrap_err().to_string();
        assert!(other.contains("hosts/node1.tar has 1 bytes"), "{other}");
    }

    #[test]
    fn wrong_passphrase_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let manifest = example(&[]);
        let passphrase = KeyIdentity::of_passphrase("open sesame");
        write(&path, &passphrase.into(), &manifest, &[]);
        let open =
            |identity: KeyIdentity| super::manifest(&path, &identity).unwrap_err().to_string();
        let refused = open(KeyIdentity::of_passphrase("other"));
        assert!(
            refused.contains("the passphrase is wrong\nhint: "),
            "{refused}"
        );
        assert!(open(identity()).contains("\nhint: pass --passphrase-file"));
    }
}
