//! The certificates of a cluster in the state directory.

use std::io::ErrorKind;
use std::path::Path;

use time::Duration;

use super::{CheckedCertificate, Row};
use kubexm_config::Cluster;
use kubexm_pki::{Certificate, PkiError};
use kubexm_session::kubeconfigs::{self, SUPER_ADMIN, SUPER_ADMIN_CERTIFICATE};

/// What super-admin.conf is for.
const OF_MASTERS: &str = "kubeconfig of the group system:masters";

/// What the state directory has.
pub(super) struct OwnFiles {
    /// Path, purpose, and certificates.
    files: Vec<OwnFile>,
    registry_ca: String,
}

struct OwnFile {
    path: String,
    purpose: &'static str,
    found: Result<Vec<Certificate>, PkiError>,
    /// The certificates of the CA that a kubeconfig names, or that signs the certificate.
    ca: Option<Vec<Certificate>>,
}

impl OwnFiles {
    /// Reads the CAs of kubexm and the kubeconfigs of administrators. A file that does not exist is not in the list: which
    /// ones a cluster has depends on its type.
    pub(super) fn read(cluster: &Cluster, state: &Path) -> Self {
        let pki = state.join("pki");
        let registry_ca = pki.join(format!("kubexm-{}.crt", cluster.name));
        let kubernetes_ca = pki.join("kubernetes/kubernetes.crt");
        let mut files = Vec::new();
        for (path, purpose) in [
            (registry_ca.clone(), "CA of the registry"),
            (pki.join(format!("etcd-{}.crt", cluster.name)), "CA of etcd"),
            (kubernetes_ca.clone(), "CA of Kubernetes"),
            (
                pki.join("kubernetes/front-proxy-ca.crt"),
                "CA of the front proxy",
            ),
        ] {
            let shown = path.display().to_string();
            files.extend(parsed(&path).map(|found| OwnFile {
                path: shown,
                purpose,
                found,
                ca: None,
            }));
        }
        let super_admin = pki.join("kubernetes/super-admin.crt");
        files.extend(parsed(&super_admin).map(|found| {
            OwnFile {
                path: super_admin.display().to_string(),
                purpose: "client of the group system:masters",
                found,
                ca: Some(
                    parsed(&kubernetes_ca)
                        .and_then(Result::ok)
                        .unwrap_or_default(),
                ),
            }
        }));
        for (name, purpose) in [
            ("admin.conf", "kubeconfig of administrators"),
            (SUPER_ADMIN, OF_MASTERS),
        ] {
            let path = state.join(name);
            files.extend(kubeconfig(&path, purpose));
        }
        // An encrypted kubeconfig has its certificate beside it.
        let encrypted = kubeconfigs::super_admin(state);
        if let Some(path) = encrypted.filter(|path| *path != state.join(SUPER_ADMIN)) {
            let found = parsed(&state.join(SUPER_ADMIN_CERTIFICATE));
            files.extend(found.map(|found| OwnFile {
                path: path.display().to_string(),
                purpose: OF_MASTERS,
                found,
                ca: None,
            }));
        }
        Self {
            files,
            registry_ca: registry_ca.display().to_string(),
        }
    }

    pub(super) fn registry_ca(&self) -> &[Certificate] {
        let mut files = self.files.iter();
        let found = files.find(|file| file.path == self.registry_ca);
        match found.map(|file| &file.found) {
            Some(Ok(found)) => found,
            _ => &[],
        }
    }

    /// Judges the files. Clocks may differ by `skew`.
    pub(super) fn checked(&self, skew: Duration) -> Vec<CheckedCertificate> {
        let mut checked = Vec::new();
        for file in &self.files {
            let row = Row {
                host: None,
                path: &file.path,
                purpose: file.purpose,
                is_rotated: false,
                skew,
            };
            checked.extend(row.checked(&file.found, file.ca.as_deref()));
        }
        checked
    }
}

/// Reads a file of this machine; `None` if it does not exist.
fn read(path: &Path) -> Option<Result<String, PkiError>> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read.map_err(|source| PkiError::Io {
            action: "read",
            path: path.display().to_string(),
            source,
        })),
    }
}

/// Parses a file of this machine; `None` if it does not exist.
fn parsed(path: &Path) -> Option<Result<Vec<Certificate>, PkiError>> {
    let shown = path.display().to_string();
    Some(read(path)?.and_then(|text| Certificate::parse_all(&shown, &text)))
}

/// Reads the client certificate of a kubeconfig on this machine; `None` if the file does not exist.
fn kubeconfig(path: &Path, purpose: &'static str) -> Option<OwnFile> {
    let shown = path.display().to_string();
    let text = match read(path)? {
        Ok(text) => text,
        Err(error) => {
            return Some(OwnFile {
                found: Err(error),
                ca: None,
                path: shown,
                purpose,
            });
        }
    };
    let field = |name: &str| {
        let decoded = kubeconfigs::field(&text, name);
        Certificate::parse_all(&shown, &String::from_utf8_lossy(&decoded))
    };
    Some(OwnFile {
        found: field("client-certificate-data"),
        ca: Some(field("certificate-authority-data").unwrap_or_default()),
        path: shown.clone(),
        purpose,
    })
}
