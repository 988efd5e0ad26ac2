//! The authorities with which kubeadm begins: those of a backup, which are in the state directory only while a restore installs
//! hosts, or the CA of the site.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use crate::begun::{Phase, RotationRecord};
use crate::ca_encryption::CaEncryption;
use crate::sealed::{self, Opener, Seal};
use crate::state_record::StateRecord;
use crate::{CommandError, FileError};
use kubexm_config::Cluster;
use kubexm_deploy::{GivenAuthorities, SITE_CA};
use kubexm_engine::cluster::ClusterRecord;
use kubexm_engine::plan::StepError;
use kubexm_pki::{CertificateStore, Pair, is_key_of, site_ca};
use kubexm_types::{Authority, Digest, authority, remove_if_exists, write_atomic};

/// The file in the directory of certificates: a tar archive of files below `/etc/kubernetes/pki`. It is encrypted if the keys of CAs
/// are.
const NAME: &str = "kubeadm-authorities.tar";
/// The names of the files in an encrypted archive, one in a line: a plan needs them without the identity.
const NAMES: &str = "kubeadm-authorities.names";
/// The directory of certificates in the state directory.
const PKI: &str = "pki";
/// The directory of the files on a control plane.
pub const DIRECTORY: &str = "/etc/kubernetes/pki";
/// The files, below this directory. `etcd/ca` exists if kubeadm runs etcd.
const FILES: [&str; 8] = [
    "ca.crt",
    "ca.key",
    "etcd/ca.crt",
    "etcd/ca.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "sa.key",
    "sa.pub",
];
/// The files that identify authorities.
const AUTHORITIES: [(&str, Authority); 4] = [
    ("ca.crt", Authority::Kubernetes),
    ("etcd/ca.crt", Authority::Etcd),
    ("front-proxy-ca.crt", Authority::FrontProxy),
    ("sa.pub", Authority::ServiceAccounts),
];
/// Certificates with their keys.
const PAIRS: [(&str, &str); 3] = [
    ("ca.crt", "ca.key"),
    ("etcd/ca.crt", "etcd/ca.key"),
    ("front-proxy-ca.crt", "front-proxy-ca.key"),
];
/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// The authorities that a state directory records: those of the cluster, and others of a rotation that has begun.
#[derive(Debug, Default)]
pub struct Known {
    record: BTreeMap<Authority, Digest>,
    pub(crate) rotation: BTreeSet<Digest>,
    /// Those whose rotation is in its last phase, or is cancelled: hosts can have another one that the state directory has forgotten.
    pub(crate) ending: BTreeSet<Authority>,
}

impl Known {
    /// Reads what a state directory records.
    ///
    /// # Errors
    /// A file is damaged, or cannot be read.
    pub fn of(state: &Path) -> Result<Self, CommandError> {
        let failed = |error: io::Error| FileError::io("read the authorities in", state, &error);
        let mut known = Self::default();
        if let Some(record) = ClusterRecord::read(state)? {
            known.record = record.authorities().clone();
        }
        let is_public = |name: &String| name.ends_with(".crt") || name.ends_with(".pub");
        let files = files_of_rotation(state).map_err(failed)?;
        for name in files.into_iter().filter(is_public) {
            let content = std::fs::read(state.join(&name)).map_err(failed)?;
            known.add(&name, &content).map_err(failed)?;
        }
        if let Some(record) = RotationRecord::read(state)? {
            known.note_end(record);
        }
        Ok(known)
    }

    /// Adds a file of the state directory, if it records authorities. `name` is its path there.
    ///
    /// # Errors
    /// The record of the cluster is damaged.
    pub fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        if name == ClusterRecord::FILE {
            let record: ClusterRecord =
                serde_json::from_slice(content).map_err(io::Error::other)?;
            self.record = record.authorities().clone();
        } else if name == RotationRecord::FILE {
            let value = serde_json::from_slice(content).map_err(io::Error::other)?;
            let record = RotationRecord::parse(value);
            self.note_end(record.map_err(|error| io::Error::other(error.to_string()))?);
        } else if is_of_rotation(name) {
            let found = authority::fingerprints(&String::from_utf8_lossy(content));
            self.rotation.extend(found);
        }
        Ok(())
    }

    fn note_end(&mut self, record: RotationRecord) {
        if record.is_cancelled || record.phase == Phase::Remove {
            self.ending = record.authorities;
        }
    }

    /// Returns whether the CA of the cluster is recorded.
    pub fn is_recorded(&self) -> bool {
        self.record.contains_key(&Authority::Kubernetes)
    }

    /// Returns whether a file has this authority, and no other one than a rotation has.
    pub(crate) fn has(&self, authority: Authority, text: &str) -> bool {
        let Some(expected) = self.record.get(&authority) else {
            return true;
        };
        let found = authority::fingerprints(text);
        let is_known = |one: &Digest| one == expected || self.rotation.contains(one);
        if self.ending.contains(&authority) {
            return found.contains(expected);
        }
        !found.is_empty() && found.iter().all(is_known)
    }
}

/// Returns whether a file of the state directory belongs to a rotation of authorities, beside the present ones: a restored cluster
/// trusts only these.
pub fn is_of_rotation(name: &str) -> bool {
    name.strip_prefix("pki/").is_some_and(|name| {
        let is_other = |end: &str| name.contains(&format!(".{end}."));
        name.starts_with("rotation/") || is_other("next") || is_other("former")
    })
}

/// Returns the files of a state directory for which [`is_of_rotation`] holds, by their paths there.
///
/// # Errors
/// A directory cannot be read.
pub fn files_of_rotation(state: &Path) -> io::Result<Vec<String>> {
    fn list(state: &Path, folder: &str, found: &mut Vec<String>) -> io::Result<()> {
        let entries = match std::fs::read_dir(state.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                list(state, &name, found)?;
            } else if is_of_rotation(&name) {
                found.push(name);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    list(state, PKI, &mut found)?;
    Ok(found)
}

/// Returns the authorities of the backup in a directory of certificates; `None` if it has none.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn load(store: &CertificateStore) -> Result<Option<GivenAuthorities>, CommandError> {
    let path = store.path(NAME);
    let Some(stored) = sealed::stored(&path) else {
        return Ok(None);
    };
    if stored == path {
        let archive = std::fs::read(&path).and_then(given);
        let archive = archive.map_err(|error| FileError::io("read", &path, &error))?;
        return Ok(Some(archive));
    }
    let names = store.path(NAMES);
    let text = std::fs::read_to_string(&names);
    let text = text.map_err(|error| FileError::io("read", &names, &error))?;
    let store = store.clone();
    Ok(Some(GivenAuthorities {
        names: text.lines().map(str::to_owned).collect(),
        archive: Arc::new(move || {
            opened(&store).map_err(|error| StepError::Other((&error).into()))
        }),
    }))
}

/// Returns the content of an encrypted archive.
fn opened(store: &CertificateStore) -> Result<Vec<u8>, CommandError> {
    let path = store.path(NAME);
    let mut content = Vec::new();
    let mut reader = Opener::of_store(store)?.open(&path)?;
    let read = reader.read_to_end(&mut content);
    read.map_err(|error| FileError::io("read", &path, &error))?;
    Ok(content)
}

/// Returns whether the state directory has authorities of a backup.
pub(crate) fn are_given(state: &Path) -> bool {
    sealed::stored(&state.join(PKI).join(NAME)).is_some()
}

/// Returns the CA of the site; `None` if the cluster file names none. kubeadm creates the other authorities. The key is read when the
/// first control plane needs it.
pub fn of_site(cluster: &Cluster) -> Option<GivenAuthorities> {
    let own = cluster.clone();
    GivenAuthorities::of_site(cluster, move || {
        let ca = site_ca::load(&own).map_err(|error| StepError::Other((&error).into()))?;
        let archived = ca.map_or_else(|| Ok(Vec::new()), |ca| archive_of(&ca));
        archived.map_err(|error| StepError::Other(error.to_string().into()))
    })
}

fn archive_of(ca: &Pair) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in SITE_CA.into_iter().zip([&ca.certificate, &ca.key]) {
        append(&mut archive, name, content.as_bytes())?;
    }
    archive.into_inner()
}

fn given(archive: Vec<u8>) -> io::Result<GivenAuthorities> {
    let mut names = Vec::new();
    for entry in tar::Archive::new(archive.as_slice()).entries()? {
        names.push(String::from_utf8_lossy(&entry?.path_bytes()).into_owned());
    }
    Ok(GivenAuthorities {
        names,
        archive: Arc::new(move || Ok(archive.clone())),
    })
}

fn append(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o600);
    archive.append_data(&mut header, name, content)
}

/// What a control plane has of the authorities that kubeadm created.
pub struct HostAuthorities {
    /// A tar archive of the files that it has.
    pub archive: Vec<u8>,
    entries: Entries,
    contents: BTreeMap<&'static str, String>,
}

impl HostAuthorities {
    /// Returns the names of the files that a new cluster needs and that are missing. Without `etcd/ca`, kubeadm creates another
    /// one, which is enough for new members.
    pub fn lacks(&self) -> Vec<String> {
        self.entries.missing(false)
    }

    /// Returns the names of all files that kubeadm creates and that are missing, below [`DIRECTORY`]. `runs_etcd` states whether
    /// kubeadm runs etcd.
    pub fn missing(&self, runs_etcd: bool) -> Vec<String> {
        self.entries.missing(runs_etcd)
    }

    /// Returns why these are not the authorities of the cluster: the file and the reason. A person who has changed the host or the
    /// backup can have replaced them.
    pub fn problem(&self, known: &Known) -> Option<String> {
        let text = |name: &str| self.contents.get(name).map(String::as_str);
        for (name, authority) in AUTHORITIES {
            if text(name).is_some_and(|text| !known.has(authority, text)) {
                return Some(format!("{name} is not the {authority} of the cluster"));
            }
        }
        let is_pair = |certificate: &str, key: &str| {
            Pair::of("a CA", certificate.to_owned(), key.to_owned()).is_ok()
        };
        let other = |(public, private), is_own: &dyn Fn(&str, &str) -> bool| {
            let both = text(public).zip(text(private));
            let differs = both.is_some_and(|(public, private)| !is_own(public, private));
            differs.then(|| format!("{private} is not the key of {public}"))
        };
        let mut others = PAIRS.iter().filter_map(|pair| other(*pair, &is_pair));
        let first = others.next();
        first.or_else(|| other(("sa.pub", "sa.key"), &is_key_of))
    }

    /// Returns the present fingerprint of each authority.
    fn fingerprints(&self) -> impl Iterator<Item = (Authority, Digest)> {
        AUTHORITIES.iter().filter_map(|(name, authority)| {
            let found = authority::fingerprints(self.contents.get(name)?);
            Some((*authority, *found.first()?))
        })
    }

    /// Returns the authorities that are others than a record of the cluster has. A rotation after the backup has replaced them.
    pub fn replaced_in(&self, record: &ClusterRecord) -> Vec<Authority> {
        let others = self.fingerprints().filter(|(authority, found)| {
            let recorded = record.authorities().get(authority);
            recorded.is_some_and(|recorded| recorded != found)
        });
        others.map(|(authority, _)| authority).collect()
    }

    /// Returns whether these are more of the authorities than the others are.
    pub fn is_better(&self, other: &Self) -> bool {
        let rank = |one: &Self| (one.lacks().len(), one.entries.missing(true).len());
        rank(self) < rank(other)
    }
}

/// Takes the authorities out of the archive with the files of a control plane. Without `runs_etcd`, kubeadm has none of etcd.
///
/// # Errors
/// The archive is damaged.
pub fn of_host(files: impl Read, runs_etcd: bool) -> io::Result<HostAuthorities> {
    let mut found = tar::Builder::new(Vec::new());
    let mut contents = BTreeMap::new();
    let entries = visit(files, |name, mut content| {
        if name.starts_with("etcd/") && !runs_etcd {
            return Ok(());
        }
        contents.insert(name, String::from_utf8_lossy(&content).into_owned());
        if !name.ends_with(".key") {
            content.truncate(first_block(&content));
        }
        append(&mut found, name, &content)
    })?;
    Ok(HostAuthorities {
        archive: found.into_inner()?,
        entries,
        contents,
    })
}

/// The authorities in the archive with the files of a control plane.
#[derive(Default)]
struct Entries {
    /// Those with a content.
    found: Vec<&'static str>,
    /// Those that are symbolic links, which a restore cannot follow.
    links: Vec<&'static str>,
}

impl Entries {
    fn missing(&self, runs_etcd: bool) -> Vec<String> {
        let needed = FILES.iter();
        let needed = needed.filter(|name| runs_etcd || !name.starts_with("etcd/"));
        let missing = needed.filter(|name| !self.found.contains(name));
        let missing = missing.map(|name| {
            if self.links.contains(name) {
                format!("{name} (a symbolic link)")
            } else {
                (*name).to_owned()
            }
        });
        missing.collect()
    }
}

/// Reads the archive with the files of a control plane, and hands each authority with its content to `take`.
fn visit(
    files: impl Read,
    mut take: impl FnMut(&'static str, Vec<u8>) -> io::Result<()>,
) -> io::Result<Entries> {
    let mut entries = Entries::default();
    let mut archive = tar::Archive::new(files);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = path.trim_start_matches("./");
        let name = path.strip_prefix(DIRECTORY.trim_start_matches('/'));
        let Some(name) = name.and_then(|name| name.strip_prefix('/')) else {
            continue;
        };
        let Some(name) = FILES.iter().find(|known| **known == name) else {
            continue;
        };
        match entry.header().entry_type() {
            tar::EntryType::Symlink => entries.links.push(name),
            // A file can be empty after its disk was full.
            _ if entries.found.contains(name) => {
                return Err(io::Error::other(format!("it has {name} twice")));
            }
            tar::EntryType::Regular if (1..=LARGEST).contains(&entry.size()) => {
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                take(name, content)?;
                entries.found.push(name);
            }
            _ => {}
        }
    }
    Ok(entries)
}

/// Returns the length of the first PEM block (RFC 7468). In a rotation, a file has the present certificate first, and then the next
/// or the former one, which the restored cluster does not trust.
fn first_block(content: &[u8]) -> usize {
    const END: &[u8] = b"-----END ";
    let ends = content.windows(END.len()).position(|part| part == END);
    let rest = ends.and_then(|at| {
        let line = content[at..].iter().position(|byte| *byte == b'\n');
        line.map(|length| at + length + 1)
    });
    rest.unwrap_or(content.len())
}

/// Writes the archive of a control plane to the state directory. It is encrypted if the keys of CAs are, or if `encryption` is given.
///
/// # Errors
/// The file system refuses it, or `encryption` does not open what encrypts it: an install could not read it.
pub fn save(
    state: &Path,
    host: &HostAuthorities,
    encryption: Option<&CaEncryption>,
) -> Result<(), CommandError> {
    let folder = state.join(PKI);
    crate::private_directory::create(&folder, "create the directory of certificates")?;
    let seal = Seal::with(state, encryption)?;
    Opener::of(state, encryption)?;
    let (path, names) = (folder.join(NAME), folder.join(NAMES));
    let failed = |error: io::Error| FileError::io("write", &path, &error);
    let found: Vec<&str> = host.contents.keys().copied().collect();
    write_atomic(&names, found.join("\n").as_bytes(), 0o600).map_err(failed)?;
    let written = seal.write(&path, &host.archive).map_err(failed)?;
    if written != path {
        remove_if_exists(&path).map_err(failed)?;
    }
    Ok(())
}

/// Records the fingerprints of the authorities of a control plane in the record of the cluster. It can have those of a later rotation,
/// which the restored cluster does not have.
///
/// # Errors
/// The record cannot be read or written.
pub fn learn(state: &Path, host: &HostAuthorities) -> Result<(), CommandError> {
    let Some(mut record) = ClusterRecord::read(state)? else {
        return Ok(());
    };
    for (authority, fingerprint) in host.fingerprints() {
        record.replace(authority, fingerprint);
    }
    record.save(state)
}

/// Removes the archive from the state directory.
pub fn remove(state: &Path) {
    let folder = state.join(PKI);
    while let Some(stored) = sealed::stored(&folder.join(NAME)) {
        if std::fs::remove_file(stored).is_err() {
            break;
        }
    }
    let _ = std::fs::remove_file(folder.join(NAMES));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::tests::identity_file;

    fn host_files(names: &[&str]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for name in names {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            header.set_mode(0o644);
            builder
                .append_data(&mut header, format!("./etc/kubernetes/{name}"), &b"x"[..])
                .unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn only_authorities_are_taken_and_all_of_them() {
        let mut names = vec!["admin.conf", "pki/apiserver.key", "pki/etcd/ca.key"];
        let worse = of_host(host_files(&names).as_slice(), true).unwrap();
        let lacks = worse.lacks().join(" ");
        assert_eq!(
            lacks,
            "ca.crt ca.key front-proxy-ca.crt front-proxy-ca.key sa.key sa.pub"
        );
        names.extend([
            "pki/ca.crt",
            "pki/ca.key",
            "pki/front-proxy-ca.crt",
            "pki/front-proxy-ca.key",
            "pki/sa.key",
            "pki/sa.pub",
        ]);
        let found = of_host(host_files(&names).as_slice(), true).unwrap();
        assert_eq!(found.lacks(), [""; 0]);
        assert!(found.is_better(&worse) && !worse.is_better(&found));
        names.push("pki/etcd/ca.crt");
        let whole = of_host(host_files(&names).as_slice(), true).unwrap();
        assert!(whole.is_better(&found) && !found.is_better(&whole));
        let mut archive = tar::Archive::new(found.archive.as_slice());
        let entries = archive.entries().unwrap();
        let names: Vec<String> = entries
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names.len(), 7);
        assert!(
            names.contains(&"etcd/ca.key".to_owned())
                && !names.contains(&"apiserver.key".to_owned())
        );
    }

    #[test]
    fn missing_authorities_are_named() {
        let names = [
            "pki/ca.crt",
            "pki/front-proxy-ca.crt",
            "pki/front-proxy-ca.key",
            "pki/sa.key",
        ];
        let mut files = tar::Builder::new(host_files(&names));
        // The archive of the files has its own end.
        let length = files.get_ref().len() - 1024;
        files.get_mut().truncate(length);
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o600);
        let path = "./etc/kubernetes/pki/sa.pub";
        files.append_data(&mut header, path, &b""[..]).unwrap();
        header.set_entry_type(tar::EntryType::Symlink);
        let path = "./etc/kubernetes/pki/ca.key";
        files.append_link(&mut header, path, "/srv/ca.key").unwrap();
        let files = files.into_inner().unwrap();
        let all = of_host(files.as_slice(), true).unwrap();
        let found = |runs_etcd| all.missing(runs_etcd).join(", ");
        assert_eq!(found(false), "ca.key (a symbolic link), sa.pub");
        let expected = "ca.key (a symbolic link), etcd/ca.crt, etcd/ca.key, sa.pub";
        assert_eq!(found(true), expected);
        let lacks = of_host(files.as_slice(), false).unwrap();
        assert_eq!(lacks.lacks(), ["ca.key (a symbolic link)", "sa.pub"]);
        assert_eq!(of_host(&b""[..], false).unwrap().lacks().len(), 6);
    }

    /// A restore of an older backup on new hosts overwrote the newer fingerprints.
    #[test]
    fn authorities_that_a_rotation_has_replaced_are_found() {
        let block = |content: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n")
        };
        let mut files = tar::Builder::new(Vec::new());
        for (name, text) in [
            ("ca.crt", block("YWJj")),
            ("front-proxy-ca.crt", block("YWJk")),
        ] {
            append(
                &mut files,
                &format!("etc/kubernetes/pki/{name}"),
                text.as_bytes(),
            )
            .unwrap();
        }
        let host = of_host(files.into_inner().unwrap().as_slice(), true).unwrap();
        let state = tempfile::tempdir().unwrap();
        let mut record = ClusterRecord::new("example".parse().unwrap()).unwrap();
        assert_eq!(host.replaced_in(&record), []);
        record.learn(Authority::Kubernetes, Digest::of(b"rotated"));
        record.learn(Authority::FrontProxy, Digest::of(b"abd"));
        assert_eq!(host.replaced_in(&record), [Authority::Kubernetes]);
        record.save(state.path()).unwrap();
        learn(state.path(), &host).unwrap();
        let record = ClusterRecord::read(state.path()).unwrap().unwrap();
        assert_eq!(host.replaced_in(&record), []);
    }

    #[test]
    fn present_certificate_of_a_rotation_is_taken_alone() {
        let one = "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n";
        let other = "-----BEGIN CERTIFICATE-----\nB\n-----END CERTIFICATE-----\n";
        assert_eq!(first_block(format!("{one}{other}").as_bytes()), one.len());
        assert_eq!(first_block(one.as_bytes()), one.len());
        assert_eq!(first_block(one.trim_end().as_bytes()), one.len() - 1);
        assert_eq!(first_block(b"x"), 1);
    }

    #[test]
    fn archive_is_in_the_state_directory_while_a_restore_installs_hosts() {
        let state = tempfile::tempdir().unwrap();
        let store = || CertificateStore::read_only(state.path().join("pki"));
        assert!(load(&store()).unwrap().is_none());
        let host = of_host(host_files(&["pki/ca.key", "pki/sa.pub"]).as_slice(), true).unwrap();
        save(state.path(), &host, None).unwrap();
        let loaded = load(&store()).unwrap().unwrap();
        assert_eq!((loaded.archive)().unwrap(), host.archive);
        // The keys of all CAs of kubeadm were in clear text beside encrypted ones.
        let encryption = identity_file(state.path());
        save(state.path(), &host, Some(&encryption)).unwrap();
        assert!(!state.path().join("pki").join(NAME).exists() && are_given(state.path()));
        let loaded = load(&store()).unwrap().unwrap();
        assert_eq!(loaded.names, ["ca.key", "sa.pub"]);
        assert!((loaded.archive)().is_err());
        let identity = encryption.identity().unwrap();
        let opened = load(&store().encrypted(Some(identity))).unwrap().unwrap();
        assert_eq!((opened.archive)().unwrap(), host.archive);
        let refused = save(state.path(), &host, None).unwrap_err().to_string();
        assert!(
            refused.contains("archive.key.age is encrypted"),
            "{refused}"
        );
        remove(state.path());
        assert!(load(&store()).unwrap().is_none() && !are_given(state.path()));
    }

    #[test]
    fn files_of_a_rotation_beside_the_present_ones_are_left_out() {
        for name in [
            "pki/rotation/kubernetes.crt",
            "pki/kubernetes-ca.next.key",
            "pki/etcd-ca.former.crt",
        ] {
            assert!(is_of_rotation(name), "{name}");
        }
        for name in ["pki/kubernetes-ca.crt", "admin.conf", "rotation.json"] {
            assert!(!is_of_rotation(name), "{name}");
        }
    }
}
