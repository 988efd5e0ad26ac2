//! `certs check`: lists the certificates of a cluster, on its hosts and in the state directory. It needs no API server.

mod own_files;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::own_files::OwnFiles;
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

#[cfg(test)]
pub(super) mod tests;
