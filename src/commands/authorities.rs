//! The authorities that kubeadm created, from a backup. They are in the state directory only while a restore installs hosts.

use std::io::{self, Read};
use std::path::Path;

use crate::{CommandError, FileError};
use kubexm_pki::CertificateStore;
use kubexm_types::write_atomic;

/// The file in the state directory: a tar archive of files below `/etc/kubernetes/pki`.
pub(crate) const FILE: &str = "pki/kubeadm-authorities.tar";
/// The name of the file in the directory of certificates.
const NAME: &str = "kubeadm-authorities.tar";
/// The files, below `/etc/kubernetes/pki`. `etcd/ca` exists if kubeadm runs etcd.
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
/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Returns the archive of a directory of certificates; `None` if it has none.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn load(store: &CertificateStore) -> Result<Option<Vec<u8>>, CommandError> {
    let path = store.path(NAME);
    match std::fs::read(&path) {
        Ok(archive) => Ok(Some(archive)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::io("read", &path, &error).into()),
    }
}

/// Takes the authorities out of the archive with the files of a control plane. Returns `None` if one of them is missing.
///
/// # Errors
/// The archive is damaged.
pub(crate) fn of_host(files: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut found = tar::Builder::new(Vec::new());
    let mut names = Vec::new();
    let mut archive = tar::Archive::new(files);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = path.trim_start_matches("./");
        let Some(name) = path.strip_prefix("etc/kubernetes/pki/") else {
            continue;
        };
        let Some(name) = FILES.iter().find(|known| **known == name) else {
            continue;
        };
        if entry.header().entry_type() != tar::EntryType::Regular || entry.size() > LARGEST {
            continue;
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if !name.ends_with(".key") {
            content.truncate(first_block(&content));
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        found.append_data(&mut header, name, content.as_slice())?;
        names.push(*name);
    }
    let is_complete = FILES
        .iter()
        .all(|name| names.contains(name) || name.starts_with("etcd/"));
    match is_complete {
        true => found.into_inner().map(Some),
        false => Ok(None),
    }
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

/// Writes the archive to the state directory.
///
/// # Errors
/// The file system refuses it.
pub(crate) fn save(state: &Path, archive: &[u8]) -> Result<(), CommandError> {
    let path = state.join(FILE);
    if let Some(folder) = path.parent() {
        crate::private_directory::create(folder, "create the directory of certificates")?;
    }
    let written = write_atomic(&path, archive, 0o600);
    written.map_err(|error| FileError::io("write", &path, &error).into())
}

/// Removes the archive from the state directory.
pub(crate) fn remove(state: &Path) {
    let _ = std::fs::remove_file(state.join(FILE));
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(of_host(host_files(&names).as_slice()).unwrap().is_none());
        names.extend([
            "pki/ca.crt",
            "pki/ca.key",
            "pki/front-proxy-ca.crt",
            "pki/front-proxy-ca.key",
            "pki/sa.key",
            "pki/sa.pub",
        ]);
        let archive = of_host(host_files(&names).as_slice()).unwrap().unwrap();
        let mut archive = tar::Archive::new(archive.as_slice());
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
        assert_eq!(load(&store()).unwrap(), None);
        save(state.path(), b"x").unwrap();
        assert_eq!(load(&store()).unwrap().unwrap(), b"x");
        remove(state.path());
        assert_eq!(load(&store()).unwrap(), None);
    }
}
