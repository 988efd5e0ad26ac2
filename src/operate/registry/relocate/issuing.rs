//! Whether the certificates of a move can be issued, before the move is recorded.

use std::path::Path;

use kubexm_config::Cluster;
use kubexm_config::cluster::KubernetesKind;
use kubexm_pki::{Ca, CertificateStore, PkiError};
use kubexm_session::CommandError;
use kubexm_session::certificates::{self, CaEncryption};
use kubexm_types::Authority;

/// Returns why no certificate for the registries of a cluster can be issued: a key of a CA is not there, or is encrypted and no
/// identity decrypts it. `None` if all keys are there that are needed. Changes nothing.
///
/// # Errors
/// The state directory cannot be read, a CA in it is damaged, or the identity does not decrypt a key.
pub(super) fn obstacle(
    cluster: &Cluster,
    state: &Path,
    encryption: Option<&CaEncryption>,
) -> Result<Option<PkiError>, CommandError> {
    let identity = encryption.map(CaEncryption::identity).transpose()?;
    let store = CertificateStore::read_only(state.join("pki")).encrypted(identity);
    match store.opens_sealed() {
        Err(cause @ PkiError::EncryptedKey { .. }) => return Ok(Some(cause)),
        opened => opened?,
    }
    let seen = certificates::preview(cluster, state, encryption)?;
    let mut needed = Vec::new();
    let issued = std::fs::read_to_string(store.path("registry.crt")).unwrap_or_default();
    if issued != seen.registry.certificate {
        needed.push(Authority::Registry);
    }
    // Without kubeadm, every run reads the key that control planes have.
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        needed.push(Authority::Kubernetes);
    }
    for authority in needed {
        let obstacle = key(cluster, &store, authority)?;
        if obstacle.is_some() {
            return Ok(obstacle);
        }
    }
    Ok(None)
}

/// Returns why the key of an authority cannot be used.
fn key(
    cluster: &Cluster,
    store: &CertificateStore,
    authority: Authority,
) -> Result<Option<PkiError>, CommandError> {
    let (store, name) = certificates::place(cluster, store, authority);
    let ca = Ca::load_or_create(&store, &name)?;
    let purpose = "issue the certificates of the registries".to_owned();
    match ca.pair() {
        Ok(_) => Ok(None),
        Err(PkiError::EncryptedKey { path, .. }) => {
            Ok(Some(PkiError::EncryptedKey { purpose, path }))
        }
        Err(PkiError::MissingKey { path, .. }) => Ok(Some(PkiError::MissingKey { purpose, path })),
        Err(other) => Err(CommandError::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_session::example::cluster;
    use kubexm_types::Secret;

    /// Returns the obstacle, without the path of the state directory.
    fn found(cluster: &Cluster, state: &Path, with: Option<&CaEncryption>) -> Option<String> {
        let found = obstacle(cluster, state, with).unwrap();
        found.map(|cause| {
            cause
                .to_string()
                .replace(&state.display().to_string(), "[state]")
        })
    }

    /// A move that is recorded and cannot issue certificates would block other commands.
    #[test]
    fn key_that_a_move_cannot_use_is_found_before_the_move_begins() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let phrase = |text: &str| CaEncryption::Passphrase(Secret(text.to_owned()));
        let right = phrase("right");
        let before = cluster();
        certificates::load_or_issue(&before, state, None).unwrap();
        // An earlier version encrypted the keys of CAs alone.
        let store = CertificateStore::new(state.join("pki"));
        let store = store.encrypted(Some(right.identity().unwrap()));
        Ca::load_or_create(&store, "kubexm-example").unwrap();
        let mut after = before.clone();
        after.roles.registry = vec!["node2".parse().unwrap()];
        assert_eq!(
            found(&after, state, None).unwrap(),
            "cannot issue the certificates of the registries: [state]/pki/kubexm-example.key.age is encrypted\nhint: pass what \
             encrypted it: the identity file with --ca-identity, or the passphrase with --ca-passphrase-file"
        );
        assert_eq!(found(&after, state, Some(&right)), None);
        assert!(obstacle(&after, state, Some(&phrase("wrong"))).is_err());
        // The certificate is there already.
        assert_eq!(found(&before, state, None), None);
        std::fs::remove_file(state.join("pki/kubexm-example.key.age")).unwrap();
        let absent = found(&after, state, None).unwrap();
        assert!(
            absent.contains("kubexm-example.key does not exist"),
            "{absent}"
        );
        assert_eq!(found(&before, state, None), None);
    }

    /// The move reads the key of the registry, also if it issues no certificate.
    #[test]
    fn encrypted_key_of_the_registry_is_found_before_the_move_begins() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let right = CaEncryption::Passphrase(Secret("right".to_owned()));
        let identity = Some(right.identity().unwrap());
        certificates::load_or_issue(&cluster(), state, identity).unwrap();
        let refused = found(&cluster(), state, None).unwrap();
        let expected = "cannot read [state]/pki/registry.key.sealed: [state]/pki/archive.key.age is encrypted\nhint: ";
        assert!(refused.starts_with(expected), "{refused}");
        assert_eq!(found(&cluster(), state, Some(&right)), None);
    }
}
