//! The files of authorities on this machine, while they are replaced: those that kubexm keeps, and those of kubeadm, whose keys
//! are on the hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_deploy::rotation::RotatedAuthority;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_pki::rotation::{self, Kind};
use kubexm_pki::{CertificateStore, KeyIdentity};
use kubexm_preflight::identity;
use kubexm_session::begun::{Phase, RotationRecord, StateRecord};
use kubexm_session::{CommandError, FileError, certificates, site_ca};
use kubexm_types::{Authority, Digest, authority};

/// The directory below that of the certificates, for authorities of kubeadm.
const FOLDER: &str = "rotation";

/// The authorities of a rotation.
pub(super) struct Store<'a> {
    cluster: &'a Cluster,
    store: CertificateStore,
    /// Those that kubexm keeps.
    kept: BTreeSet<Authority>,
}

/// The files of an authority.
struct Place {
    store: CertificateStore,
    name: String,
    kind: Kind,
    /// Whether the store has its present key.
    is_kept: bool,
}

impl<'a> Store<'a> {
    pub(super) fn open(cluster: &'a Cluster, state: &Path, identity: Option<KeyIdentity>) -> Self {
        let store = CertificateStore::new(state.join("pki")).encrypted(identity);
        Self {
            cluster,
            store: store.valid_for(cluster.kubernetes.validity),
            kept: identity::kept(cluster),
        }
    }

    fn place(&self, authority: Authority) -> Place {
        let is_kept = self.kept.contains(&authority);
        let (store, name) = if is_kept {
            certificates::place(self.cluster, &self.store, authority)
        } else {
            (self.store.subdirectory(FOLDER), name(authority).to_owned())
        };
        Place {
            store,
            name,
            kind: Kind::of(authority),
            is_kept,
        }
    }

    /// Fails if the file of a CA has several certificates before the rotation: it is unknown which one signs.
    pub(super) fn accept(
        &self,
        record: &RotationRecord,
        present: &BTreeMap<Authority, String>,
    ) -> Result<(), CommandError> {
        for authority in &record.authorities {
            let place = self.place(*authority);
            let is_begun = if place.is_kept {
                rotation::others(&place.store, &place.name, place.kind)
                    .is_ok_and(|others| others.iter().any(Option::is_some))
            } else {
                rotation::present(&place.store, &place.name, place.kind).is_ok()
            };
            // Hosts have the same as this machine, or the command has ended already.
            let (text, file) = if place.is_kept {
                (
                    rotation::present(&place.store, &place.name, place.kind)?,
                    place
                        .store
                        .path(&format!("{}.crt", place.name))
                        .display()
                        .to_string(),
                )
            } else {
                (
                    present.get(authority).cloned().unwrap_or_default(),
                    format!(
                        "{} on the first control plane",
                        path(self.cluster, *authority).unwrap_or_default()
                    ),
                )
            };
            let found = authority::fingerprints(&text);
            let count = found.len();
            let of_site = match authority {
                // The end of a rotation needs no next CA.
                Authority::Kubernetes if !record.is_cancelled => {
                    site_ca::fingerprint(self.cluster)?
                }
                _ => None,
            };
            if let Some(named) = of_site {
                place.accept_named(record, named, &found)?;
            }
            if !is_begun && count != 1 {
                return Err(CommandError::refused(format!(
                    "cannot replace the {authority}: {file} has {count} of them"
                ))
                .hint("leave only the one that signs in this file on every node"));
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
            let Place {
                store,
                name,
                kind,
                is_kept,
            } = &self.place(*authority);
            match record.phase {
                Phase::Trust => {
                    let text = present.get(authority).map_or("", String::as_str);
                    let recorded = match is_kept {
                        true => Ok(()),
                        false => rotation::record(store, name, *kind, text),
                    };
                    recorded.and_then(|()| {
                        let subject = subject(name, &record.id);
                        if *authority == Authority::Kubernetes {
                            let of_site = || kubexm_pki::site_ca::load(self.cluster);
                            rotation::begin_with(store, name, of_site)?;
                        }
                        rotation::begin(store, name, *kind, &subject)
                    })
                }
                Phase::Switch => rotation::switch(store, name, *kind),
                Phase::Remove => rotation::finish(store, name, *kind),
            }?;
        }
        Ok(())
    }

    /// Forgets the next authorities. Before the run that began the rotation was killed, it may have recorded none of the present
    /// ones, which are in `present`.
    pub(super) fn cancel(
        &self,
        record: &RotationRecord,
        present: &BTreeMap<Authority, String>,
    ) -> Result<(), CommandError> {
        for authority in &record.authorities {
            let place = self.place(*authority);
            if let Some(text) = present.get(authority).filter(|_| !place.is_kept) {
                rotation::record(&place.store, &place.name, place.kind, text)?;
            }
            rotation::cancel(&place.store, &place.name, place.kind)?;
        }
        Ok(())
    }

    /// Returns what hosts get in the present phase.
    pub(super) fn rotated(
        &self,
        authorities: &BTreeSet<Authority>,
    ) -> Result<BTreeMap<Authority, RotatedAuthority>, CommandError> {
        let rotated = authorities.iter().map(|authority| {
            let own = self.place(*authority).rotated();
            Ok((*authority, own?))
        });
        rotated.collect()
    }

    /// Returns the certificate or public key of an authority that signs.
    pub(super) fn present(&self, authority: Authority) -> Result<String, CommandError> {
        let place = self.place(authority);
        rotation::present(&place.store, &place.name, place.kind).map_err(CommandError::from)
    }

    /// Returns the certificate or public key of an authority before the switch; `None` if it was removed.
    pub(super) fn former(&self, authority: Authority) -> Result<Option<String>, CommandError> {
        let place = self.place(authority);
        let [_, former] = rotation::others(&place.store, &place.name, place.kind)?;
        Ok(former)
    }

    /// Records which authorities the cluster has after the switch. Every host trusts them by then.
    pub(super) fn learn(&self, state: &Path, record: &RotationRecord) -> Result<(), CommandError> {
        let Some(mut known) = ClusterRecord::read(state)? else {
            return Ok(());
        };
        for authority in &record.authorities {
            if let Some(fingerprint) = authority::fingerprints(&self.present(*authority)?).first() {
                known.replace(*authority, *fingerprint);
            }
        }
        known.save(state)
    }

    /// Removes the directory of authorities of kubeadm: their keys are on the hosts only.
    pub(super) fn forget(&self) -> Result<(), CommandError> {
        let folder = self.store.path(FOLDER);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::io("remove", &folder, &error).into())
            }
            _ => Ok(()),
        }
    }
}

impl Place {
    /// Fails if the CA of the site in the cluster file is not the one that becomes the next CA. `present` is the CA of the cluster.
    fn accept_named(
        &self,
        record: &RotationRecord,
        named: Digest,
        present: &[Digest],
    ) -> Result<(), CommandError> {
        let [next, former] = rotation::others(&self.store, &self.name, self.kind)?;
        let (cause, hint) = match next.map(|next| authority::fingerprints(&next)) {
            Some(next) if next != [named] => (
                "is not the next CA of the rotation that has begun",
                format!(
                    "name that CA again, or end the rotation with {} --cancel",
                    record.command()
                ),
            ),
            None if former.is_none() && present == [named] => (
                "names the present one",
                "name the files of the next CA in the cluster file, or remove the field for a new CA; --ca selects other CAs"
                    .to_owned(),
            ),
            _ => return Ok(()),
        };
        let what = format!("cannot replace the Kubernetes CA: kubernetes.certificates.ca {cause}");
        Err(CommandError::refused(what).hint(hint))
    }

    /// Returns what hosts get. Hosts get the key of a kept authority with the certificates that it signs.
    fn rotated(&self) -> Result<RotatedAuthority, kubexm_pki::PkiError> {
        if self.is_kept {
            let own = rotation::public(&self.store, &self.name, self.kind)?;
            return Ok(RotatedAuthority {
                trusted: own.trusted,
                present: own.present,
                key: None,
            });
        }
        let own = rotation::load(&self.store, &self.name, self.kind)?;
        Ok(RotatedAuthority {
            trusted: own.trusted,
            present: own.present,
            key: own.key,
        })
    }
}

/// Returns the name of the files of an authority of kubeadm.
fn name(authority: Authority) -> &'static str {
    match authority {
        Authority::Kubernetes => "kubernetes",
        Authority::FrontProxy => "front-proxy-ca",
        Authority::Etcd => "etcd-ca",
        Authority::Registry => "registry",
        Authority::ServiceAccounts => "sa",
    }
}

/// Returns the common name of a new CA: the usual one with the time of the rotation, so that the issuer of a certificate shows
/// which CA signed it.
fn subject(name: &str, id: &str) -> String {
    let time: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{name}-{time}")
}

/// Returns the path of what programs trust of an authority, on control planes; `None` for one that they do not have.
pub(super) fn path(cluster: &Cluster, authority: Authority) -> Option<&'static str> {
    match authority {
        Authority::Kubernetes => Some("/etc/kubernetes/pki/ca.crt"),
        Authority::FrontProxy => Some("/etc/kubernetes/pki/front-proxy-ca.crt"),
        Authority::Etcd => match &cluster.etcd {
            Etcd::Kubeadm { .. } => Some("/etc/kubernetes/pki/etcd/ca.crt"),
            Etcd::Systemd { .. } => Some("/etc/kubexm/etcd/ca.crt"),
            Etcd::External { .. } => None,
        },
        Authority::ServiceAccounts => Some("/etc/kubernetes/pki/sa.pub"),
        Authority::Registry => None,
    }
}

/// Returns whether an authority has its certificates or public keys in a file, on any host.
pub(super) fn is_path_of(cluster: &Cluster, authority: Authority, file: &str) -> bool {
    let is_on_members = authority == Authority::Etcd
        && matches!(cluster.etcd, Etcd::Systemd { .. })
        && file == "/etc/kubexm/etcd-member/ca.crt";
    let is_on_nodes = authority == Authority::Registry && file == "/etc/kubexm/registry-ca.crt";
    is_on_members || is_on_nodes || path(cluster, authority) == Some(file)
}
