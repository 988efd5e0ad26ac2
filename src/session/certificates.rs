//! Issues the certificates of a cluster.

mod owner;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;

pub use crate::ca_encryption::CaEncryption;
pub use crate::ca_encryption::identity_in;
use crate::{CommandError, archives, authorities, kubeconfigs};
use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind};
use kubexm_deploy::{Certificates, EtcdCertificates, GivenAuthorities};
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_pki::registry_login::RegistryLogin;
use kubexm_pki::rotation;
use kubexm_pki::secret_keys::EncryptionKeys;
use kubexm_pki::{Ca, CertificateStore, KeyIdentity, Leaf, Pair, ca_fingerprint, key_fingerprint};
use kubexm_preflight::identity::{self, Expected};
use kubexm_types::{Authority, Digest, HostName, authority};
pub use owner::{forget, is_renewed};
use time::OffsetDateTime;

/// Loads the cluster's CAs and certificates from the state directory, and issues those that are missing.
///
/// With an identity, the keys of CAs are encrypted, and what archives have in clear text.
///
/// # Errors
/// The state directory cannot be read or written, or a CA in it is damaged.
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
    archives::seal(state)?;
    Ok(certificates)
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
/// Hosts get the key of a CA only in a cluster without kubeadm. Only for such a cluster the identity is read. Without it, an
/// encrypted key is unknown.
///
/// # Errors
/// The state directory cannot be read, a CA in it is damaged, or the identity does not decrypt a key.
pub fn preview(
    cluster: &Cluster,
    state: &Path,
    encryption: Option<&CaEncryption>,
) -> Result<Certificates, CommandError> {
    let encryption = match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => None,
        KubernetesKind::Systemd => encryption,
    };
    let identity = encryption.map(CaEncryption::identity).transpose()?;
    let store = CertificateStore::read_only(state.join("pki")).encrypted(identity);
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
/// key of service accounts, but no key of a CA.
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
pub(crate) mod tests {
    use std::net::IpAddr;
    use std::path::PathBuf;

    use super::*;
    use crate::ca_encryption::tests::IDENTITY;
    use kubexm_config::example::cluster_of;
    use kubexm_pki::kubernetes::CaKey;
    use kubexm_types::Secret;

    const ROLES: &str = "control-plane: [node1], etcd: [node1]";

    fn cluster() -> Cluster {
        cluster_of(ROLES, "type: systemd", "etcd: {type: systemd}")
    }

    /// Returns all paths below a directory, and the content of files.
    fn listing(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(listing(&path));
                found.insert(path, None);
            } else {
                let content = std::fs::read(&path).unwrap();
                found.insert(path, Some(content));
            }
        }
        found
    }

    #[test]
    fn keys_of_cas_are_encrypted_with_the_identity_of_a_file() {
        let state = tempfile::tempdir().unwrap();
        let cluster = cluster();
        let plain = load_or_issue(&cluster, state.path(), None).unwrap();
        let file = state.path().join("identity");
        std::fs::write(&file, format!("# of a test\n{IDENTITY}\n")).unwrap();
        let identity = CaEncryption::of_file(file).identity().unwrap();
        let encrypted = load_or_issue(&cluster, state.path(), Some(identity));
        assert_eq!(encrypted.unwrap().ca, plain.ca);
        for name in ["kubexm-example", "etcd-example", "kubernetes/kubernetes"] {
            let pki = state.path().join("pki");
            assert!(!pki.join(format!("{name}.key")).exists(), "{name}");
            assert!(pki.join(format!("{name}.key.age")).exists(), "{name}");
        }
        // Control planes get the key of the Kubernetes CA, so that this cluster needs it for each install.
        assert!(load_or_issue(&cluster, state.path(), None).is_err());
        assert_eq!(preview(&cluster, state.path(), None).unwrap().ca, plain.ca);
    }

    /// Returns the encryption with an identity that protects nothing.
    pub(crate) fn identity_file(folder: &Path) -> CaEncryption {
        let file = folder.join("identity");
        std::fs::write(&file, IDENTITY).unwrap();
        CaEncryption::of_file(file)
    }

    /// Creates a state directory whose keys of CAs are encrypted.
    pub(crate) fn encrypted_state(state: &Path, encryption: &CaEncryption) {
        let identity = encryption.identity().unwrap();
        load_or_issue(&cluster(), state, Some(identity)).unwrap();
    }

    #[test]
    fn kubeadm_begins_with_the_ca_of_the_site() {
        let state = tempfile::tempdir().unwrap();
        let mut cluster = cluster_of("control-plane: [node1]", "", "");
        let given = |cluster: &Cluster| {
            load_or_issue(cluster, state.path(), None)
                .unwrap()
                .authorities
        };
        assert!(given(&cluster).is_none());
        let store = CertificateStore::new(state.path().join("site"));
        Ca::load_or_create(&store, "ca").unwrap();
        cluster.kubernetes.site_ca = Some(kubexm_config::cluster::SiteCa {
            cert_file: store.path("ca.crt"),
            key_file: store.path("ca.key"),
        });
        assert_eq!(given(&cluster).unwrap().names, ["ca.crt", "ca.key"]);
        // Those of a backup are of the cluster.
        let none = authorities::of_host([0; 1024].as_slice(), false).unwrap();
        authorities::save(state.path(), &none, None).unwrap();
        assert_eq!(given(&cluster).unwrap().names, [""; 0]);
    }

    /// The key of archives follows the keys of CAs: also to another passphrase, after a user has decrypted all of them.
    #[test]
    fn archives_stay_readable_after_another_passphrase() {
        let state = tempfile::tempdir().unwrap();
        let pki = state.path().join("pki");
        let first = identity_file(state.path());
        let second = CaEncryption::Passphrase(Secret("second".to_owned()));
        load_or_issue(&cluster(), state.path(), None).unwrap();
        assert!(!pki.join("archive.pub").exists());
        encrypted_state(state.path(), &first);
        let public = std::fs::read(pki.join("archive.pub")).unwrap();
        let store = CertificateStore::read_only(&pki);
        let opened = store.clone().encrypted(Some(first.identity().unwrap()));
        assert!(opened.archive_identity().unwrap().is_some());
        for below in [&pki, &pki.join("kubernetes")] {
            for file in std::fs::read_dir(below).unwrap() {
                let file = file.unwrap().path();
                if file.extension().is_some_and(|end| end == "age") {
                    let identity = first.identity().unwrap();
                    let key = std::fs::File::open(&file).unwrap();
                    let mut key = identity.decrypt_stream(key).unwrap();
                    let mut clear = std::fs::File::create(file.with_extension("")).unwrap();
                    std::io::copy(&mut key, &mut clear).unwrap();
                    std::fs::remove_file(&file).unwrap();
                }
            }
        }
        encrypted_state(state.path(), &second);
        assert!(!pki.join("archive.key").exists());
        assert_eq!(std::fs::read(pki.join("archive.pub")).unwrap(), public);
        let opened = store.encrypted(Some(second.identity().unwrap()));
        assert!(opened.archive_identity().unwrap().is_some());
    }

    #[test]
    fn keys_of_cas_are_encrypted_with_a_passphrase() {
        let state = tempfile::tempdir().unwrap();
        let cluster = cluster();
        let encryption = CaEncryption::Passphrase(Secret("CANARY phrase".to_owned()));
        assert!(!format!("{encryption:?}").contains("CANARY"));
        let identity = || Some(encryption.identity().unwrap());
        let first = load_or_issue(&cluster, state.path(), identity()).unwrap();
        let again = load_or_issue(&cluster, state.path(), identity()).unwrap();
        assert_eq!(again.ca, first.ca);
        for (path, content) in listing(state.path()) {
            let content = content.unwrap_or_default();
            let text = String::from_utf8_lossy(&content);
            assert!(!text.contains("CANARY"), "{}", path.display());
        }
        let pki = state.path().join("pki");
        assert!(!pki.join("kubexm-example.key").exists());
        assert!(pki.join("kubexm-example.key.age").exists());
    }

    #[test]
    fn renewal_of_a_host_keeps_certificates_of_others() {
        let roles = format!("{ROLES}, worker: [a-node1]");
        let cluster = cluster_of(&roles, "type: systemd", "etcd: {type: systemd}");
        let selected = |hosts: &[&str]| hosts.iter().map(|host| host.parse().unwrap()).collect();
        let renewed = |hosts: &[&str], name: &str| is_renewed(&cluster, &selected(hosts), name);
        assert!(renewed(&["node1"], "apiserver-node1"));
        assert!(!renewed(&["node1"], "apiserver-a-node1"));
        assert!(renewed(&["a-node1"], "apiserver-a-node1"));
        assert!(renewed(&["node1"], "etcd-client") && !renewed(&["a-node1"], "etcd-client"));
        assert!(renewed(&["node1"], "super-admin") && !renewed(&["a-node1"], "super-admin"));
    }

    /// Returns the key of the CA of Kubernetes, or why it is unknown.
    fn key(certificates: &Certificates) -> Result<&str, String> {
        match &certificates.kubernetes.as_ref().unwrap().ca_key {
            CaKey::Known(key) => Ok(key),
            CaKey::Unknown(cause) => Err(cause.to_string()),
        }
    }

    /// Hosts have this key. A preview with another one would report a difference in every comparison.
    #[test]
    fn preview_has_the_encrypted_key_with_the_identity_and_none_without() {
        let state = tempfile::tempdir().unwrap();
        let cluster = cluster();
        let with = |text: &str| CaEncryption::Passphrase(Secret(text.to_owned()));
        let right = with("CANARY phrase");
        let issued = load_or_issue(&cluster, state.path(), Some(right.identity().unwrap()));
        let issued = issued.unwrap();
        let before = listing(state.path());
        let seen = preview(&cluster, state.path(), Some(&right)).unwrap();
        assert!(key(&seen).is_ok() && key(&seen) == key(&issued));
        let seen = preview(&cluster, state.path(), None).unwrap();
        assert!(
            key(&seen)
                .unwrap_err()
                .contains("kubernetes.key.age is encrypted\nhint: ")
        );
        let (seen, issued) = (seen.kubernetes.unwrap(), issued.kubernetes.unwrap());
        assert_eq!(seen.ca, issued.ca);
        assert_eq!(seen.super_admin.certificate, issued.super_admin.certificate);
        let error = preview(&cluster, state.path(), Some(&with("CANARY"))).err();
        let error = error.unwrap().to_string();
        assert!(
            error.contains("the passphrase is wrong") && !error.contains("CANARY"),
            "{error}"
        );
        assert_eq!(listing(state.path()), before);
    }

    #[test]
    fn preview_of_a_cluster_with_kubeadm_needs_no_identity() {
        let state = tempfile::tempdir().unwrap();
        let cluster = cluster_of(ROLES, "", "etcd: {type: systemd}");
        let absent = CaEncryption::of_file(state.path().join("absent"));
        preview(&cluster, state.path(), Some(&absent)).unwrap();
    }

    /// `plan --diff` uses the preview.
    #[test]
    fn preview_writes_nothing_to_the_state_directory() {
        let state = tempfile::tempdir().unwrap();
        let before_install = cluster();
        preview(&before_install, state.path(), None).unwrap();
        assert!(listing(state.path()).is_empty());

        let issued = load_or_issue(&before_install, state.path(), None).unwrap();
        let before = listing(state.path());
        assert!(!before.is_empty());
        let same = preview(&before_install, state.path(), None).unwrap();
        assert_eq!(same.ca, issued.ca);
        assert_eq!(same.registry.certificate, issued.registry.certificate);

        // Another address of the host requires new certificates.
        let mut moved = before_install.clone();
        moved.hosts[0].internal_addresses = IpAddr::from([192, 0, 2, 12]).into();
        let renewed = preview(&moved, state.path(), None).unwrap();
        assert_eq!(renewed.ca, issued.ca);
        assert_ne!(renewed.registry.certificate, issued.registry.certificate);
        assert_eq!(listing(state.path()), before);
    }
}
