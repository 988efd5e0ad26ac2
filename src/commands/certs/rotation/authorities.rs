//! The files of authorities of kubeadm on this machine, while they are replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::record::{Phase, RotationRecord};
use crate::{CommandError, FileError};
use kubexm_config::Cluster;
use kubexm_deploy::rotation::RotatedAuthority;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_pki::rotation::{self, Kind};
use kubexm_pki::{CertificateStore, KeyIdentity};
use kubexm_types::{Authority, authority};

/// The directory below that of the certificates.
const FOLDER: &str = "rotation";

/// The authorities of a rotation.
pub(super) struct Store {
    store: CertificateStore,
}

impl Store {
    pub(super) fn open(cluster: &Cluster, state: &Path, identity: Option<KeyIdentity>) -> Self {
        let store = CertificateStore::new(state.join("pki")).encrypted(identity);
        Self {
            store: store
                .valid_for(cluster.kubernetes.validity)
                .subdirectory(FOLDER),
        }
    }

    /// Fails if the file of a CA has several certificates before the rotation: it is unknown which one signs.
    pub(super) fn accept(
        &self,
        record: &RotationRecord,
        present: &BTreeMap<Authority, String>,
    ) -> Result<(), CommandError> {
        for authority in &record.authorities {
            let (name, kind) = (name(*authority), kind(*authority));
            let is_begun = rotation::present(&self.store, name, kind).is_ok();
            let text = present.get(authority).map(String::as_str);
            let count = authority::fingerprints(text.unwrap_or_default()).len();
            if !is_begun && count != 1 {
                return Err(CommandError::Configuration(format!(
                    "cannot replace the {authority}: {} on the first control plane has {count} of them\nhint: leave only the \
                     one that signs in this file on every node",
                    path(*authority).unwrap_or_default()
                )));
            }
        }
        Ok(())
    }

    /// Brings the files to a phase. It completes what an interrupted run began. `present` has the certificates and public keys
    /// of the authorities that the cluster has now.
    pub(super) fn enter(
        &self,
        record: &RotationRecord,
        present: &BTreeMap<Authority, String>,
    ) -> Result<(), CommandError> {
        for authority in &record.authorities {
            let (name, kind) = (name(*authority), kind(*authority));
            match record.phase {
                Phase::Trust => {
                    let text = present.get(authority).map_or("", String::as_str);
                    rotation::record(&self.store, name, kind, text).and_then(|()| {
                        let subject = subject(*authority, &record.id);
                        rotation::begin(&self.store, name, kind, &subject)
                    })
                }
                Phase::Switch => rotation::switch(&self.store, name, kind),
                Phase::Remove => rotation::finish(&self.store, name, kind),
            }
            .map_err(CommandError::configuration)?;
        }
        Ok(())
    }

    /// Forgets the next authorities.
    pub(super) fn cancel(&self, record: &RotationRecord) -> Result<(), CommandError> {
        for authority in &record.authorities {
            rotation::cancel(&self.store, name(*authority), kind(*authority))
                .map_err(CommandError::configuration)?;
        }
        Ok(())
    }

    /// Returns what hosts get in the present phase.
    pub(super) fn rotated(
        &self,
        authorities: &BTreeSet<Authority>,
    ) -> Result<BTreeMap<Authority, RotatedAuthority>, CommandError> {
        let rotated = authorities.iter().map(|authority| {
            let own = rotation::load(&self.store, name(*authority), kind(*authority))
                .map_err(CommandError::configuration)?;
            let own = RotatedAuthority {
                trusted: own.trusted,
                present: own.present,
                key: own.key,
            };
            Ok((*authority, own))
        });
        rotated.collect()
    }

    /// Returns the certificate or public key of an authority that signs.
    pub(super) fn present(&self, authority: Authority) -> Result<String, CommandError> {
        rotation::present(&self.store, name(authority), kind(authority))
            .map_err(CommandError::configuration)
    }

    /// Returns the certificate or public key of an authority before the switch; `None` if it was removed.
    pub(super) fn former(&self, authority: Authority) -> Result<Option<String>, CommandError> {
        let [_, former] = rotation::others(&self.store, name(authority), kind(authority))
            .map_err(CommandError::configuration)?;
        Ok(former)
    }

    /// Records which authorities the cluster has after the switch. Every host trusts them by then.
    pub(super) fn learn(&self, state: &Path, record: &RotationRecord) -> Result<(), CommandError> {
        let file = state.join(ClusterRecord::FILE);
        let loaded = ClusterRecord::load(state);
        let loaded = loaded
            .map_err(|error| FileError::new("read the record of the cluster", &file, error))?;
        let Some(mut known) = loaded else {
            return Ok(());
        };
        for authority in &record.authorities {
            if let Some(fingerprint) = authority::fingerprints(&self.present(*authority)?).first() {
                known.replace(*authority, *fingerprint);
            }
        }
        let saved = known.save(state);
        saved
            .map_err(|error| FileError::new("write the record of the cluster", &file, error).into())
    }

    /// Removes the directory: the keys of kubeadm are on the hosts only.
    pub(super) fn forget(&self) -> Result<(), CommandError> {
        let folder = self.store.path("");
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::io("remove", &folder, &error).into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the name of the files of an authority.
fn name(authority: Authority) -> &'static str {
    match authority {
        Authority::Kubernetes => "kubernetes",
        Authority::FrontProxy => "front-proxy-ca",
        Authority::Etcd => "etcd-ca",
        Authority::Registry => "registry",
        Authority::ServiceAccounts => "sa",
    }
}

fn kind(authority: Authority) -> Kind {
    match authority {
        Authority::ServiceAccounts => Kind::Key,
        _ => Kind::Ca,
    }
}

/// Returns the common name of a new CA: that of kubeadm with the time of the rotation, so that the issuer of a certificate shows
/// which CA signed it.
fn subject(authority: Authority, id: &str) -> String {
    let time: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{}-{time}", name(authority))
}

/// Returns the path of what programs trust of an authority, on control planes.
pub(super) fn path(authority: Authority) -> Option<&'static str> {
    match authority {
        Authority::Kubernetes => Some("/etc/kubernetes/pki/ca.crt"),
        Authority::FrontProxy => Some("/etc/kubernetes/pki/front-proxy-ca.crt"),
        Authority::Etcd => Some("/etc/kubernetes/pki/etcd/ca.crt"),
        Authority::ServiceAccounts => Some("/etc/kubernetes/pki/sa.pub"),
        Authority::Registry => None,
    }
}
