//! Issues the certificates of a cluster.

mod owner;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;

pub use crate::ca_encryption::CaEncryption;
pub use crate::ca_encryption::identity_in;
use crate::{CommandError, authorities, kubeconfigs};
use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind};
use kubexm_deploy::{Certificates, EtcdCertificates, GivenAuthorities};
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_pki::registry_login::RegistryLogin;
use kubexm_pki::rotation;
use kubexm_pki::secret_keys::EncryptionKeys;
use kubexm_pki::{Ca, CertificateStore, KeyIdentity, Leaf, Pair, ca_fingerprint, key_fingerprint};
use kubexm_preflight::identity::{self, Expected};
use kubexm_types::event::Events;
use kubexm_types::{Authority, Digest, HostName, Message, WarningKind, authority};
pub use owner::{forget, is_renewed};
use time::OffsetDateTime;

/// Loads the cluster's CAs and certificates from the state directory, and issues those that are missing.
///
/// With an identity, the keys that it returns and `super-admin.conf` are encrypted, apart from the login of the registry.
/// [`clear_text::encrypt`](crate::clear_text::encrypt) encrypts what is left.
///
/// # Errors
/// The state directory cannot be read or written, a CA in it is damaged, or the identity does not open what is encrypted.
pub fn load_or_issue(
    cluster: &Cluster,
    state: &Path,
    identity: Option<KeyIdentity>,
) -> Result<Certificates, CommandError> {
    let store = CertificateStore::new(state.join("pki")).encrypted(identity);
    let store = store.valid_for(cluster.kubernetes.validity);
    let certificates = from_store(cluster, &store)?;
    store.keep_archive_key()?;
    kubeconfigs::seal_super_admin(state)?;
    Ok(certificates)
}

/// Fails if the state directory has encrypted secrets that [`load_or_issue`] reads and `encryption` does not open. A command asks this
/// before it begins.
///
/// # Errors
/// `encryption` is missing, or another one encrypted them.
pub fn check_opens(state: &Path, encryption: Option<&CaEncryption>) -> Result<(), CommandError> {
    let store = CertificateStore::read_only(state.join("pki"));
    if store.has_sealed()? {
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        store.encrypted(identity).opens_sealed()?;
    }
    Ok(())
}

/// Warns in a dry run if [`check_opens`] refuses the command.
pub fn warn_unless_opens(state: &Path, encryption: Option<&CaEncryption>, events: &Events) {
    if let Err(error) = check_opens(state, encryption) {
        let within = "this dry run does not open the secrets of the state directory";
        events.warn(
            WarningKind::NotChecked,
            Message::from(&error).within(within),
        );
    }
}

/// Returns what nodes get to pull from the registry: the CA and the login. Placeholders are in the place of everything else, so that no
/// secret needs to be decrypted.
///
/// # Errors
/// The state directory cannot be read, or the CA or the login is damaged.
pub fn of_registry(cluster: &Cluster, state: &Path) -> Result<Certificates, CommandError> {
    let store = CertificateStore::read_only(state.join("pki"));
    let ca = Ca::load_or_create(&store, &format!("kubexm-{}", cluster.name))?;
    Ok(Certificates {
        ca: ca.trusted().to_owned(),
        registry_login: registry_login(cluster, &store)?,
        ..Certificates::placeholder(cluster)
    })
}

/// Loads the certificates as [`load_or_issue`], and issues those again that were issued before `since`, apart from
/// certificates of other hosts and those that other hosts share.
///
/// # Errors
/// As [`load_or_issue`].
pub fn renew(
    cluster: &Cluster,
    state: &Path,
    identity: Option<KeyIdentity>,
    selected: &BTreeSet<HostName>,
    since: OffsetDateTime,
) -> Result<Certificates, CommandError> {
    let pki = state.join("pki");
    let stored = names_in(&pki)
        .into_iter()
        .chain(names_in(&pki.join("kubernetes")));
    let kept = stored.filter(|name| !is_renewed(cluster, selected, name));
    let store = CertificateStore::new(&pki).encrypted(identity);
    let store = store.valid_for(cluster.kubernetes.validity);
    from_store(cluster, &store.renewing(since, kept.collect()))
}

/// Returns the names of the certificates in a directory; none if it does not exist.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_suffix(".crt").map(str::to_owned))
        .collect()
}

/// The name of the registry's certificate.
const REGISTRY: &str = "registry";

/// Returns the certificates that [`load_or_issue`] would return, without a change of the state directory.
/// Certificates that are missing or about to expire are new in each call.
///
/// Hosts get the key of a CA only in a cluster without kubeadm. The identity is read for such a cluster, or if other secrets are
/// encrypted. Without it, an encrypted key of a CA is unknown.
///
/// # Errors
/// The state directory cannot be read, a CA in it is damaged, or the identity does not decrypt a secret. Without an identity, secrets
/// besides keys of CAs are encrypted: a comparison would call them different.
pub fn preview(
    cluster: &Cluster,
    state: &Path,
    encryption: Option<&CaEncryption>,
) -> Result<Certificates, CommandError> {
    let store = CertificateStore::read_only(state.join("pki"));
    let encryption = match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm if !store.has_sealed()? => None,
        KubernetesKind::Kubeadm | KubernetesKind::Systemd => encryption,
    };
    let identity = encryption.map(CaEncryption::identity).transpose()?;
    let store = store.encrypted(identity);
    from_store(cluster, &store.valid_for(cluster.kubernetes.validity))
}

fn from_store(cluster: &Cluster, store: &CertificateStore) -> Result<Certificates, CommandError> {
    let ca = Ca::load_or_create(store, &format!("kubexm-{}", cluster.name))?;
    Ok(Certificates {
        registry: registry(cluster, &ca, store)?,
        registry_login: registry_login(cluster, store)?,
        etcd: etcd(cluster, store)?,
        kubernetes: kubernetes(cluster, store)?,
        encryption: encryption(cluster, store)?,
        ca: ca.trusted().to_owned(),
        authorities: given(cluster, store)?.map(Arc::new),
    })
}

/// Returns the authorities with which `kubeadm init` begins: those of a backup, or the CA of the site.
fn given(
    cluster: &Cluster,
    store: &CertificateStore,
) -> Result<Option<GivenAuthorities>, CommandError> {
    let of_backup = authorities::load(store)?;
    Ok(of_backup.or_else(|| authorities::of_site(cluster)))
}

/// Returns the authorities that kubexm keeps in the state directory, with their files. Reads certificates, and the
/// key of service accounts, but no key that is encrypted.
///
/// # Errors
/// A file cannot be read, or is damaged.
pub fn kept(
    cluster: &Cluster,
    state: &Path,
) -> Result<BTreeMap<Authority, Expected>, CommandError> {
    let found = identity::kept(cluster).into_iter().map(|authority| {
        let store = CertificateStore::read_only(state.join("pki"));
        let (store, name) = place(cluster, &store, authority);
        let (fingerprint, file) = match authority {
            Authority::ServiceAccounts => (key_fingerprint(&store, &name), format!("{name}.key")),
            _ => (ca_fingerprint(&store, &name), format!("{name}.crt")),
        };
        let expected = Expected {
            fingerprint: fingerprint?,
            source: store.path(&file).display().to_string(),
        };
        Ok((authority, expected))
    });
    found.collect()
}

/// Returns where the state directory keeps an authority that kubexm created: the store, and the name of its files.
pub fn place(
    cluster: &Cluster,
    store: &CertificateStore,
    authority: Authority,
) -> (CertificateStore, String) {
    let kubernetes = || store.subdirectory("kubernetes");
    match authority {
        Authority::Registry => (store.clone(), format!("kubexm-{}", cluster.name)),
        Authority::Etcd => (store.clone(), format!("etcd-{}", cluster.name)),
        Authority::Kubernetes => (kubernetes(), "kubernetes".to_owned()),
        Authority::FrontProxy => (kubernetes(), "front-proxy-ca".to_owned()),
        Authority::ServiceAccounts => (kubernetes(), "sa".to_owned()),
    }
}

/// Returns whether a rotation has begun that replaces an authority that kubexm keeps, and in which this one is the next or the
/// former one.
///
/// # Errors
/// A file cannot be read.
pub fn is_in_rotation(
    cluster: &Cluster,
    state: &Path,
    authority: Authority,
    fingerprint: Digest,
) -> Result<bool, CommandError> {
    let store = CertificateStore::read_only(state.join("pki"));
    let (store, name) = place(cluster, &store, authority);
    let kind = rotation::Kind::of(authority);
    let others = rotation::others(&store, &name, kind)?;
    let mut others = others.iter().flatten();
    Ok(others.any(|text| authority::fingerprints(text).contains(&fingerprint)))
}

/// Returns the fingerprint of the CA in a kubeconfig; `None` if there is none that can be read.
pub fn of_kubeconfig(path: &Path) -> Option<Digest> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines().map(str::trim);
    let data = lines.find_map(|line| line.strip_prefix("certificate-authority-data:"))?;
    let pem = base64::engine::general_purpose::STANDARD
        .decode(data.trim())
        .ok()?;
    let fingerprints = authority::fingerprints(&String::from_utf8_lossy(&pem));
    fingerprints.first().copied()
}

/// The server certificate of the cluster's registry, valid for every host that runs it.
fn registry(cluster: &Cluster, ca: &Ca, store: &CertificateStore) -> Result<Pair, CommandError> {
    let mut names = vec![
        cluster.registry.host_name.to_string(),
        "127.0.0.1".to_owned(),
    ];
    let hosts = cluster.roles.registry.iter();
    for host in hosts.filter_map(|name| cluster.host(name)) {
        names.push(host.name.to_string());
        names.push(host.internal_address().to_string());
    }
    ca.issue(store, REGISTRY, &Leaf::server("registry", names))
        .map_err(CommandError::from)
}

/// The nodes' login at the registry that kubexm runs.
fn registry_login(
    cluster: &Cluster,
    store: &CertificateStore,
) -> Result<Option<RegistryLogin>, CommandError> {
    let login =
        kubexm_deploy::registry_has_login(cluster).then(|| RegistryLogin::load_or_create(store));
    login.transpose().map_err(CommandError::from)
}

/// The certificates of an etcd that kubexm runs.
fn etcd(
    cluster: &Cluster,
    store: &CertificateStore,
) -> Result<Option<EtcdCertificates>, CommandError> {
    if !matches!(cluster.etcd, Etcd::Systemd { .. }) {
        return Ok(None);
    }
    let ca = Ca::load_or_create(store, &format!("etcd-{}", cluster.name))?;
    let issue = |name: &str, leaf: &Leaf| ca.issue(store, name, leaf);
    Ok(EtcdCertificates::issue(cluster, ca.trusted(), issue)?)
}

/// The certificates of Kubernetes, where kubeadm does not issue them.
fn kubernetes(
    cluster: &Cluster,
    store: &CertificateStore,
) -> Result<Option<Arc<ClusterPki>>, CommandError> {
    match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => Ok(None),
        KubernetesKind::Systemd => {
            let store = store.subdirectory("kubernetes");
            let pki = ClusterPki::load_or_create(&store, cluster);
            pki.map(|pki| Some(Arc::new(pki)))
                .map_err(CommandError::from)
        }
    }
}

/// The keys with which API servers encrypt Secrets.
fn encryption(
    cluster: &Cluster,
    store: &CertificateStore,
) -> Result<Option<Arc<EncryptionKeys>>, CommandError> {
    let settings = cluster.security.encryption;
    let keys = settings.map(|settings| EncryptionKeys::load_or_create(store, settings));
    keys.transpose()
        .map(|keys| keys.map(Arc::new))
        .map_err(CommandError::from)
}

#[cfg(test)]
pub(crate) mod tests;
