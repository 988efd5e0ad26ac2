//! `certs check`: lists the certificates of a cluster, on its hosts and in the state directory. It needs no API server.

mod own_files;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use time::{Duration, OffsetDateTime};

use self::own_files::OwnFiles;
use super::files;
use kubexm_config::Cluster;
use kubexm_host::Facts;
use kubexm_pki::expiry;
use kubexm_pki::{Certificate, PkiError};
use kubexm_session::begun::{RotationRecord, StateRecord};
use kubexm_session::session::{self, HostErrors};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, Stop, notices};
use kubexm_types::event::Events;
use kubexm_types::message::HostReason;
use kubexm_types::untrusted::{COLUMNS, Untrusted};
use kubexm_types::{HostName, Message};

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
    pub unchecked: Vec<HostReason>,
    /// Why the record of a rotation cannot be read; [`rotation`](Self::rotation) has the text, too.
    #[serde(skip)]
    pub damaged: Option<Message>,
}

impl CertificateReport {
    /// Returns whether a file needs an action.
    pub fn has_findings(&self) -> bool {
        self.damaged.is_some() || self.has_bad_certificates()
    }

    /// Returns whether a certificate needs an action.
    pub fn has_bad_certificates(&self) -> bool {
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

/// What a certificate states, on one line each. All fields are empty for an unreadable certificate.
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
            subject: Some(shown(&certificate.subject)),
            issuer: Some(shown(&certificate.issuer)),
            serial: Some(certificate.serial.clone()),
            names: certificate.names.iter().map(|name| shown(name)).collect(),
            is_ca: certificate.is_ca,
            expires: Some(certificate.expires()),
            days_left: Some(certificate.days_left()),
        }
    }
}

/// Returns a text of a host on one line: a line end in it would forge a line of the list.
fn shown(text: &str) -> String {
    Untrusted::one_line(text, COLUMNS).to_string()
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
    /// Its validity has not begun.
    NotYetValid,
    /// The file of its CA is missing.
    CaMissing,
    /// Another CA signed it.
    CaDiffers,
    /// The file is not a certificate.
    Unreadable,
    /// The file must exist and does not, or it has no certificate.
    Missing,
}

impl Standing {
    /// Every standing.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::ExpiresSoon,
        Self::Expired,
        Self::NotYetValid,
        Self::CaMissing,
        Self::CaDiffers,
        Self::Unreadable,
        Self::Missing,
    ];
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::ExpiresSoon => "expires soon",
            Self::Expired => "expired",
            Self::NotYetValid => "not yet valid",
            Self::CaMissing => "CA missing",
            Self::CaDiffers => "another CA",
            Self::Unreadable => "unreadable",
            Self::Missing => "missing",
        })
    }
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
    options.connection.warn_of_lost_state(events);
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
pub fn report(
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
        unchecked
            .extend(failed.map(|(name, error)| HostReason::new(name.clone(), error.message())));
    }
    let skew = skew(cluster);
    certificates.extend(own.checked(skew));
    let mut damaged = None;
    let rotation = match RotationRecord::read(state) {
        Ok(record) => record.map(|record| record.standing()),
        Err(error) => {
            damaged = Some(Message::from(&error));
            Some(error.to_string())
        }
    };
    CertificateReport {
        cluster: cluster.name.clone(),
        rotation,
        certificates,
        unchecked,
        damaged,
    }
}

/// Returns by how much clocks may differ.
fn skew(cluster: &Cluster) -> Duration {
    let seconds = i64::try_from(cluster.system.max_clock_skew_seconds);
    Duration::seconds(seconds.unwrap_or(i64::MAX))
}

fn of_host(
    cluster: &Cluster,
    host: &HostName,
    facts: &Facts,
    own: &OwnFiles,
) -> Vec<CheckedCertificate> {
    // A link to a file that does not exist has no content.
    let (lost, rotated): (Vec<_>, Vec<_>) =
        facts.rotated.iter().partition(|(_, text)| text.is_empty());
    let parsed: Parsed = facts
        .certificates
        .iter()
        .chain(rotated)
        .map(|(path, text)| (path.clone(), Certificate::parse_all(path, text)))
        .collect();
    let row = |path| Row {
        host: Some(host),
        path,
        purpose: files::purpose(path),
        is_rotated: facts.rotated.contains_key(path),
        skew: skew(cluster),
    };
    let expected = files::expected(cluster, host, facts).into_iter();
    let missing: BTreeSet<&str> = expected
        .chain(lost.into_iter().map(|(path, _)| path.as_str()))
        .filter(|path| !parsed.contains_key(*path))
        .collect();
    let mut checked: Vec<CheckedCertificate> = missing
        .into_iter()
        .map(|path| row(path).without_content(Standing::Missing))
        .collect();
    for (path, found) in &parsed {
        let ca = files::ca_of(cluster, path).map(|ca| match parsed.get(ca) {
            Some(Ok(found)) => found.as_slice(),
            _ if ca == REGISTRY_CA => own.registry_ca(),
            _ => &[],
        });
        checked.extend(row(path).checked(found, ca));
    }
    // The sort keeps the order of certificates in a file.
    checked.sort_by(|one, other| one.path.cmp(&other.path));
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
    /// By how much clocks may differ.
    skew: Duration,
}

impl Row<'_> {
    fn entry(&self, content: Content, standing: Standing) -> CheckedCertificate {
        CheckedCertificate {
            host: self.host.cloned(),
            path: shown(self.path),
            purpose: self.purpose.to_owned(),
            content,
            standing,
        }
    }

    /// Returns the entry of a file without a certificate that can be read.
    fn without_content(&self, standing: Standing) -> CheckedCertificate {
        self.entry(Content::default(), standing)
    }

    /// Returns one entry for each certificate in the file. `ca` has the certificates of its CA; `None` if it is unknown
    /// which CA signs it.
    fn checked(
        &self,
        found: &Result<Vec<Certificate>, PkiError>,
        ca: Option<&[Certificate]>,
    ) -> Vec<CheckedCertificate> {
        match found {
            Err(_) => vec![self.without_content(Standing::Unreadable)],
            Ok(found) => {
                let entries = found.iter().map(|certificate| {
                    let standing = self.standing(certificate, ca);
                    self.entry(Content::of(certificate), standing)
                });
                entries.collect()
            }
        }
    }

    fn standing(&self, certificate: &Certificate, ca: Option<&[Certificate]>) -> Standing {
        let left = certificate.days_left();
        let valid = certificate.days_valid();
        let soon = if self.is_rotated {
            expiry::soon_of_rotated(valid)
        } else {
            expiry::soon(valid)
        };
        let signers = ca.filter(|_| !certificate.is_ca);
        match signers {
            _ if left < 0 => Standing::Expired,
            _ if certificate.begins - OffsetDateTime::now_utc() > self.skew => {
                Standing::NotYetValid
            }
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
