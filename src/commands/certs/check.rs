//! `certs check`: lists the certificates of a cluster, on its hosts and in the state directory. It needs no API server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use serde::Serialize;

use super::files;
use super::rotation::RotationRecord;
use crate::session::{self, HostErrors};
use crate::stop::unless_stopped;
use crate::{CommandError, Connection, Stop, expiry, notices};
use kubexm_config::Cluster;
use kubexm_host::Facts;
use kubexm_pki::{Certificate, PkiError};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// Which cluster to look at.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
}

/// The certificates of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateReport {
    /// The name of the cluster.
    pub cluster: String,
    /// How far a rotation of authorities is; `None` if none has begun.
    pub rotation: Option<String>,
    /// The certificates, in the order of the hosts in the cluster file; those of the state directory are last.
    pub certificates: Vec<CheckedCertificate>,
    /// Hosts whose certificates are unknown.
    pub unchecked: Vec<UncheckedHost>,
}

impl CertificateReport {
    /// Returns whether a certificate needs an action.
    pub fn has_findings(&self) -> bool {
        let mut all = self.certificates.iter();
        all.any(|certificate| certificate.standing != Standing::Ok)
    }

    /// Counts the certificates of a standing.
    pub fn count(&self, standing: Standing) -> usize {
        let all = self.certificates.iter();
        all.filter(|certificate| certificate.standing == standing)
            .count()
    }
}

/// A certificate in a file, or in a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedCertificate {
    /// The host; `None` for the machine on which kubexm runs.
    pub host: Option<HostName>,
    /// The file.
    pub path: String,
    /// What it is for.
    pub purpose: String,
    /// What the certificate states; `None` if it cannot be read.
    #[serde(flatten)]
    pub content: Content,
    pub standing: Standing,
}

/// What a certificate states. All fields are empty for a certificate that cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The common name of the subject.
    pub subject: Option<String>,
    /// The common name of the issuer.
    pub issuer: Option<String>,
    /// The serial number, hexadecimal.
    pub serial: Option<String>,
    /// DNS names and addresses.
    pub names: Vec<String>,
    /// Whether it is a CA.
    pub is_ca: bool,
    /// The end of its validity.
    pub expires: Option<String>,
    /// Whole days until then; negative if it has expired.
    pub days_left: Option<i64>,
}

impl Content {
    fn of(certificate: &Certificate) -> Self {
        Self {
            subject: Some(certificate.subject.clone()),
            issuer: Some(certificate.issuer.clone()),
            serial: Some(certificate.serial.clone()),
            names: certificate.names.iter().cloned().collect(),
            is_ca: certificate.is_ca,
            expires: Some(certificate.expires()),
            days_left: Some(certificate.days_left()),
        }
    }
}

/// Whether a certificate can be used, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// It is valid.
    Ok,
    /// It is valid, and it is time to renew it.
    ExpiresSoon,
    /// It has expired.
    Expired,
    /// The file of its CA is missing.
    CaMissing,
    /// Another CA signed it.
    CaDiffers,
    /// The file is not a certificate.
    Unreadable,
}

impl Standing {
    /// Every standing.
    pub const ALL: [Self; 6] = [
        Self::Ok,
        Self::ExpiresSoon,
        Self::Expired,
        Self::CaMissing,
        Self::CaDiffers,
        Self::Unreadable,
    ];
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::ExpiresSoon => "expires soon",
            Self::Expired => "expired",
            Self::CaMissing => "CA missing",
            Self::CaDiffers => "another CA",
            Self::Unreadable => "unreadable",
        })
    }
}

/// A host whose certificates are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UncheckedHost {
    pub host: HostName,
    /// Why.
    pub reason: String,
}

/// Reads the certificates on all hosts that answer, and those in the state directory. Changes nothing.
///
/// # Errors
/// The cluster file is wrong.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn check(
    options: &CheckOptions,
    events: &Events,
    stop: &Stop,
) -> Result<CertificateReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let connection = &options.connection;
    let looking = async {
        let (hosts, mut errors) = connection.connect_each(&cluster, &state, events).await?;
        let observed = session::watched(&hosts, events);
        let (facts, more) = session::gather_each(&cluster, &observed).await;
        errors.extend(more);
        Ok(report(&cluster, &state, &facts, errors))
    };
    unless_stopped(stop, looking).await
}

/// The certificates of one machine by path, in the order of the paths.
type Parsed = BTreeMap<String, Result<Vec<Certificate>, PkiError>>;

/// Judges the certificates in the facts of hosts, and those in the state directory.
pub(crate) fn report(
    cluster: &Cluster,
    state: &Path,
    facts: &BTreeMap<HostName, Facts>,
    errors: HostErrors,
) -> CertificateReport {
    let own = OwnFiles::read(cluster, state);
    let mut certificates = Vec::new();
    let mut unchecked = Vec::new();
    for host in cluster.hosts.iter().map(|host| &host.name) {
        if let Some(facts) = facts.get(host) {
            certificates.extend(of_host(cluster, host, facts, &own));
        }
        let failed = errors.iter().filter(|(name, _)| name == host);
        unchecked.extend(failed.map(|(name, error)| UncheckedHost {
            host: name.clone(),
            reason: error.to_string(),
        }));
    }
    certificates.extend(own.checked());
    let rotation = match RotationRecord::load(state) {
        Ok(record) => record.map(|record| record.standing()),
        Err(error) => Some(error.to_string()),
    };
    CertificateReport {
        cluster: cluster.name.clone(),
        rotation,
        certificates,
        unchecked,
    }
}

fn of_host(
    cluster: &Cluster,
    host: &HostName,
    facts: &Facts,
    own: &OwnFiles,
) -> Vec<CheckedCertificate> {
    let files = facts.certificates.iter().chain(&facts.rotated);
    let parsed: Parsed = files
        .map(|(path, text)| (path.clone(), Certificate::parse_all(path, text)))
        .collect();
    let mut checked = Vec::new();
    for (path, found) in &parsed {
        let ca = files::ca_of(cluster, path).map(|ca| match parsed.get(ca) {
            Some(Ok(found)) => found.as_slice(),
            _ if ca == REGISTRY_CA => own.registry_ca(),
            _ => &[],
        });
        let row = Row {
            host: Some(host),
            path,
            purpose: files::purpose(path),
            is_rotated: facts.rotated.contains_key(path),
        };
        checked.extend(row.checked(found, ca));
    }
    checked
}

/// The CA of the registry on nodes. A host that only runs the registry does not have it.
const REGISTRY_CA: &str = "/etc/kubexm/registry-ca.crt";

/// A file, without its certificates.
struct Row<'a> {
    host: Option<&'a HostName>,
    path: &'a str,
    purpose: &'a str,
    /// Whether the program that uses the certificate renews it.
    is_rotated: bool,
}

impl Row<'_> {
    /// Returns one entry for each certificate in the file. `ca` has the certificates of its CA; `None` if it is unknown
    /// which CA signs it.
    fn checked(
        &self,
        found: &Result<Vec<Certificate>, PkiError>,
        ca: Option<&[Certificate]>,
    ) -> Vec<CheckedCertificate> {
        let entry = |content, standing| CheckedCertificate {
            host: self.host.cloned(),
            path: self.path.to_owned(),
            purpose: self.purpose.to_owned(),
            content,
            standing,
        };
        match found {
            Err(_) => vec![entry(Content::default(), Standing::Unreadable)],
            Ok(found) => {
                let entries = found.iter().map(|certificate| {
                    let standing = self.standing(certificate, ca);
                    entry(Content::of(certificate), standing)
                });
                entries.collect()
            }
        }
    }

    fn standing(&self, certificate: &Certificate, ca: Option<&[Certificate]>) -> Standing {
        let left = certificate.days_left();
        let valid = certificate.days_valid();
        let soon = match self.is_rotated {
            true => expiry::soon_of_rotated(valid),
            false => expiry::soon(valid),
        };
        let signers = ca.filter(|_| !certificate.is_ca);
        match signers {
            _ if left < 0 => Standing::Expired,
            Some([]) => Standing::CaMissing,
            Some(signers) if !signers.iter().any(|ca| certificate.is_signed_by(ca)) => {
                Standing::CaDiffers
            }
            _ if left < soon => Standing::ExpiresSoon,
            _ => Standing::Ok,
        }
    }
}

/// What the state directory has.
struct OwnFiles {
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
    fn read(cluster: &Cluster, state: &Path) -> Self {
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
            ("super-admin.conf", "kubeconfig of the group system:masters"),
        ] {
            let path = state.join(name);
            files.extend(kubeconfig(&path, purpose));
        }
        Self {
            files,
            registry_ca: registry_ca.display().to_string(),
        }
    }

    fn registry_ca(&self) -> &[Certificate] {
        let mut files = self.files.iter();
        let found = files.find(|file| file.path == self.registry_ca);
        match found.map(|file| &file.found) {
            Some(Ok(found)) => found,
            _ => &[],
        }
    }

    fn checked(&self) -> Vec<CheckedCertificate> {
        let mut checked = Vec::new();
        for file in &self.files {
            let row = Row {
                host: None,
                path: &file.path,
                purpose: file.purpose,
                is_rotated: false,
            };
            checked.extend(row.checked(&file.found, file.ca.as_deref()));
        }
        checked
    }
}

/// Parses a file of this machine; `None` if it does not exist.
fn parsed(path: &Path) -> Option<Result<Vec<Certificate>, PkiError>> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(Certificate::parse_all(&path.display().to_string(), &text))
}

/// Reads the client certificate of a kubeconfig on this machine; `None` if the file does not exist.
fn kubeconfig(path: &Path, purpose: &'static str) -> Option<OwnFile> {
    let text = std::fs::read_to_string(path).ok()?;
    let shown = path.display().to_string();
    let field = |name: &str| {
        let mut lines = text.lines().map(str::trim);
        let data = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let data = data.unwrap_or_default().trim().trim_matches('"');
        let engine = base64::engine::general_purpose::STANDARD;
        let decoded = engine.decode(data).unwrap_or_default();
        Certificate::parse_all(&shown, &String::from_utf8_lossy(&decoded))
    };
    Some(OwnFile {
        found: field("client-certificate-data"),
        ca: Some(field("certificate-authority-data").unwrap_or_default()),
        path: shown.clone(),
        purpose,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::{parse_cluster, schema};
    use kubexm_host::HostError;
    use kubexm_pki::{Ca, CertificateStore, Leaf};

    fn self_signed(name: &str, days: i64, is_ca: bool) -> String {
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let now = time::OffsetDateTime::now_utc();
        params.not_before = now - time::Duration::days(300);
        params.not_after = now + time::Duration::days(days) + time::Duration::hours(12);
        if is_ca {
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    /// Returns `PATH: STANDING` for each certificate of a host with these files.
    fn standings(files: &[(&str, String)], rotated: &[(&str, String)]) -> Vec<String> {
        let cluster = parse_cluster("example", schema::TEMPLATE).unwrap();
        let owned = |files: &[(&str, String)]| -> BTreeMap<String, String> {
            let files = files.iter();
            files
                .map(|(path, text)| ((*path).to_owned(), text.clone()))
                .collect()
        };
        let facts = Facts {
            certificates: owned(files),
            rotated: owned(rotated),
            ..Facts::default()
        };
        let name = cluster.hosts[0].name.clone();
        let state = tempfile::tempdir().unwrap();
        let report = report(&cluster, state.path(), &[(name, facts)].into(), Vec::new());
        let entries = report.certificates.iter();
        entries
            .map(|entry| format!("{}: {}", entry.path, entry.standing))
            .collect()
    }

    #[test]
    fn standing_depends_on_the_date_and_on_the_ca() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let ca = Ca::load_or_create(&store, "kubernetes").unwrap();
        let leaf = ca.issue(&store, "leaf", &Leaf::client("user", None));
        let leaf = leaf.unwrap().certificate;
        let (ca_file, file) = ("/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/admin.conf");
        let ca_text = ca.certificate().to_owned();
        let with_ca = |text: String| standings(&[(ca_file, ca_text.clone()), (file, text)], &[]);
        assert_eq!(
            with_ca(leaf.clone()),
            [
                "/etc/kubernetes/admin.conf: ok",
                "/etc/kubernetes/pki/ca.crt: ok"
            ]
        );
        let first = |text: String| with_ca(text).remove(0);
        assert_eq!(
            first(self_signed("x", 200, false)),
            "/etc/kubernetes/admin.conf: another CA"
        );
        assert_eq!(
            first(self_signed("x", -1, false)),
            "/etc/kubernetes/admin.conf: expired"
        );
        assert_eq!(
            first("x".to_owned()),
            "/etc/kubernetes/admin.conf: unreadable"
        );
        assert_eq!(
            standings(&[(file, leaf)], &[]),
            ["/etc/kubernetes/admin.conf: CA missing"]
        );
        assert_eq!(
            standings(&[(ca_file, self_signed("old", 59, true))], &[]),
            ["/etc/kubernetes/pki/ca.crt: expires soon"]
        );
    }

    /// The kubelet renews its certificate when 10 to 30 % of the validity are left.
    #[test]
    fn certificate_that_the_kubelet_renews_expires_soon_only_when_it_did_not() {
        let path = "/var/lib/kubelet/pki/kubelet.crt";
        let of = |days| standings(&[], &[(path, self_signed("node1", days, false))]);
        assert_eq!(of(40), [format!("{path}: ok")]);
        assert_eq!(of(20), [format!("{path}: expires soon")]);
    }

    #[test]
    fn state_directory_and_hosts_that_do_not_answer_are_in_the_report() {
        let cluster = parse_cluster("example", schema::TEMPLATE).unwrap();
        let state = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(state.path().join("pki"));
        let ca = Ca::load_or_create(&store, &format!("kubexm-{}", cluster.name)).unwrap();
        let tls = ca.issue(&store, "registry", &Leaf::server("registry", Vec::new()));
        let name = cluster.hosts[0].name.clone();
        let path = "/etc/kubexm/registry/tls.crt";
        let facts = Facts {
            certificates: [(path.to_owned(), tls.unwrap().certificate)].into(),
            ..Facts::default()
        };
        std::fs::write(state.path().join("admin.conf"), "nothing").unwrap();
        let lost = cluster.hosts[1].name.clone();
        let error = HostError::Command {
            host: lost.clone(),
            command: "connect".to_owned(),
            reason: "no route".to_owned(),
        };
        let facts = [(name.clone(), facts)].into();
        let report = report(&cluster, state.path(), &facts, vec![(lost.clone(), error)]);
        let found: Vec<_> = report
            .certificates
            .iter()
            .map(|entry| (entry.host.as_ref(), entry.purpose.as_str(), entry.standing))
            .collect();
        assert_eq!(
            found,
            [
                (Some(&name), "server of the registry", Standing::Ok),
                (None, "CA of the registry", Standing::Ok),
                (None, "kubeconfig of administrators", Standing::Unreadable),
            ]
        );
        assert!(report.has_findings());
        assert_eq!(report.unchecked[0].host, lost);
        assert!(report.unchecked[0].reason.contains("no route"));
    }
}
