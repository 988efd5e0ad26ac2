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
}

/// The key of service accounts, the client of the group `system:masters` and the keys of Secrets in etcd stayed in clear text.
#[test]
fn all_keys_are_encrypted_with_the_identity() {
    let folder = tempfile::tempdir().unwrap();
    let state = &folder.path().join("state");
    let mut cluster = cluster();
    cluster.security.encryption = Some(kubexm_config::cluster::Encryption {
        provider: kubexm_config::cluster::EncryptionProvider::Secretbox,
        key: 1,
    });
    let private = |issued: &Certificates| {
        let kubernetes = issued.kubernetes.as_ref().unwrap();
        let encryption = issued.encryption.as_ref().unwrap();
        let first = &kubernetes.control_planes[&"node1".parse().unwrap()];
        [
            issued.registry.key.clone(),
            kubernetes.service_account.private.clone(),
            kubernetes.super_admin.key.clone(),
            first.admin.key.clone(),
            encryption.keys[0].secret.clone(),
        ]
    };
    let clear = load_or_issue(&cluster, state, None).unwrap();
    let fingerprints = |state: &Path| -> Vec<_> {
        let kept = kept(&cluster, state).unwrap().into_iter();
        kept.map(|(_, kept)| kept.fingerprint).collect()
    };
    let known = fingerprints(state);
    let encryption = identity_file(folder.path());
    let identity = || Some(encryption.identity().unwrap());
    let sealed = load_or_issue(&cluster, state, identity()).unwrap();
    let again = load_or_issue(&cluster, state, identity()).unwrap();
    let seen = preview(&cluster, state, Some(&encryption)).unwrap();
    for found in [sealed, again, seen] {
        assert!(private(&found) == private(&clear));
    }
    for (path, content) in listing(state) {
        let text = String::from_utf8_lossy(content.as_deref().unwrap_or_default()).into_owned();
        let is_key = path.extension().is_some_and(|end| end == "key");
        let is_clear =
            text.contains("PRIVATE KEY") || is_key && !kubexm_pki::is_mark(text.as_bytes());
        assert!(!is_clear, "{}", path.display());
    }
    // Hosts are still compared with them, also by a reset.
    assert_eq!(fingerprints(state), known);
    let before = listing(state);
    let refused = [
        load_or_issue(&cluster, state, None).map(drop),
        preview(&cluster, state, None).map(drop),
        check_opens(state, None),
    ];
    for refused in refused {
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("archive.key.age is encrypted\nhint: pass what encrypted it: the identity file with --ca-identity"),
            "{refused}"
        );
    }
    check_opens(state, Some(&encryption)).unwrap();
    let wrong = CaEncryption::Passphrase(Secret("wrong".to_owned()));
    assert!(check_opens(state, Some(&wrong)).is_err());
    assert_eq!(of_registry(&cluster, state).unwrap().ca, clear.ca);
    assert_eq!(listing(state), before);
    forget(&cluster, state, &"node1".parse().unwrap()).unwrap();
    assert!(!state.join("pki/kubernetes/admin-node1.key.sealed").exists());
}

/// The same cluster with kubeadm: its registry and its etcd have keys on this machine.
#[test]
fn older_state_directory_needs_no_identity_until_a_command_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let state = &folder.path().join("state");
    let cluster = cluster_of(ROLES, "", "etcd: {type: systemd}");
    let encryption = identity_file(folder.path());
    earlier_state(&cluster, state, &encryption);
    check_opens(state, None).unwrap();
    load_or_issue(&cluster, state, None).unwrap();
    assert!(state.join("pki/etcd-client.key").exists());
    load_or_issue(&cluster, state, Some(encryption.identity().unwrap())).unwrap();
    assert!(!state.join("pki/etcd-client.key").exists());
    assert!(check_opens(state, None).is_err());
}

/// Returns the encryption with an identity that protects nothing.
pub(crate) fn identity_file(folder: &Path) -> CaEncryption {
    let file = folder.join("identity");
    std::fs::write(&file, IDENTITY).unwrap();
    CaEncryption::of_file(file)
}

/// Creates a state directory as an earlier version left it: with encrypted keys of CAs, and other keys in clear text.
fn earlier_state(cluster: &Cluster, state: &Path, encryption: &CaEncryption) -> Certificates {
    let issued = load_or_issue(cluster, state, None).unwrap();
    let store = CertificateStore::new(state.join("pki"));
    let store = store.encrypted(Some(encryption.identity().unwrap()));
    for authority in identity::kept(cluster) {
        let (store, name) = place(cluster, &store, authority);
        if authority != Authority::ServiceAccounts {
            Ca::load_or_create(&store, &name).unwrap();
        }
    }
    store.keep_archive_key().unwrap();
    issued
}

/// Creates a state directory whose keys are encrypted.
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
    let issued = earlier_state(&cluster, state.path(), &right);
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
