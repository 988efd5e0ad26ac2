use super::*;
use crate::{Certificate, KeyIdentity, Leaf};

fn subjects(text: &str) -> Vec<String> {
    let found = Certificate::parse_all("test", text).unwrap();
    found.into_iter().map(|one| one.subject).collect()
}

#[test]
fn programs_trust_both_cas_until_the_former_one_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let ca = || Ca::load_or_create(&store, "ca").unwrap();
    let leaf = || {
        let leaf = Leaf::client("user", None);
        let pair = ca().issue(&store, "leaf", &leaf).unwrap();
        Certificate::first("leaf", &pair.certificate)
            .unwrap()
            .issuer
    };
    assert_eq!(
        (subjects(ca().trusted()), leaf()),
        (vec!["ca".to_owned()], "ca".to_owned())
    );
    begin(&store, "ca", Kind::Ca, "ca-2").unwrap();
    begin(&store, "ca", Kind::Ca, "ca-3").unwrap();
    assert_eq!(
        (subjects(ca().trusted()), leaf()),
        (vec!["ca".to_owned(), "ca-2".to_owned()], "ca".to_owned())
    );
    switch(&store, "ca", Kind::Ca).unwrap();
    switch(&store, "ca", Kind::Ca).unwrap();
    assert_eq!(
        (subjects(ca().trusted()), leaf()),
        (vec!["ca-2".to_owned(), "ca".to_owned()], "ca-2".to_owned())
    );
    finish(&store, "ca", Kind::Ca).unwrap();
    assert_eq!(subjects(ca().trusted()), ["ca-2"]);
    begin(&store, "ca", Kind::Ca, "ca-4").unwrap();
    cancel(&store, "ca", Kind::Ca).unwrap();
    assert_eq!(subjects(ca().trusted()), ["ca-2"]);
}

/// The key gets its name first, so that a switch that is interrupted leaves a key that does not belong to the certificate.
#[test]
fn interrupted_switch_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    Ca::load_or_create(&store, "ca").unwrap();
    begin(&store, "ca", Kind::Ca, "ca-2").unwrap();
    let old = store.read("ca.crt").unwrap().unwrap();
    store.write("ca.former.crt", &old).unwrap();
    store.rename("ca.next.key", "ca.key").unwrap();
    assert!(Ca::load_or_create(&store, "ca").is_err());
    switch(&store, "ca", Kind::Ca).unwrap();
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    assert_eq!(subjects(ca.trusted()), ["ca-2", "ca"]);
    assert!(ca.pair().is_ok());
}

#[test]
fn keys_of_next_cas_are_encrypted_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let plain = CertificateStore::new(dir.path());
    Ca::load_or_create(&plain, "ca").unwrap();
    let store = plain
        .clone()
        .encrypted(Some(KeyIdentity::of_passphrase("a phrase")));
    begin(&store, "ca", Kind::Ca, "ca-2").unwrap();
    assert!(!store.path("ca.next.key").exists() && store.path("ca.next.key.age").exists());
    switch(&store, "ca", Kind::Ca).unwrap();
    assert!(!store.path("ca.key").exists() && store.path("ca.key.age").exists());
    assert!(Ca::load_or_create(&store, "ca").unwrap().pair().is_ok());
    assert!(Ca::load_or_create(&plain, "ca").unwrap().pair().is_err());
}

#[test]
fn keys_of_service_accounts_are_accepted_until_they_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let load = || crate::SigningKey::load_or_create(&store, "sa").unwrap();
    let old = load();
    begin(&store, "sa", Kind::Key, "").unwrap();
    let both = load();
    assert_eq!(both.private, old.private);
    assert!(both.public.starts_with(&old.public) && both.public.len() > old.public.len());
    switch(&store, "sa", Kind::Key).unwrap();
    let new = load();
    assert_ne!(new.private, old.private);
    assert!(new.public.ends_with(&old.public) && !new.public.starts_with(&old.public));
    finish(&store, "sa", Kind::Key).unwrap();
    assert!(!load().public.contains(old.public.trim()));
}

/// It was in clear text beside encrypted keys of CAs.
#[test]
fn key_of_service_accounts_is_encrypted_in_each_phase() {
    let dir = tempfile::tempdir().unwrap();
    let plain = CertificateStore::new(dir.path()).subdirectory("kubernetes");
    let load = |store: &CertificateStore| crate::SigningKey::load_or_create(store, "sa");
    let old = load(&plain).unwrap();
    let store = plain
        .clone()
        .encrypted(Some(KeyIdentity::of_passphrase("a phrase")));
    let is_clear = |name: &str| store.path(name).exists();
    assert_eq!(load(&store).unwrap().private, old.private);
    begin(&store, "sa", Kind::Key, "").unwrap();
    assert!(!is_clear("sa.key") && !is_clear("sa.next.key"));
    // The public keys are known without the identity.
    let seen = public(&plain, "sa", Kind::Key).unwrap();
    assert_eq!(seen.present.trim(), old.public.trim());
    switch(&store, "sa", Kind::Key).unwrap();
    assert!(!is_clear("sa.key") && !store.path("sa.next.key.sealed").exists());
    let new = load(&store).unwrap();
    assert!(new.private != old.private && new.public.ends_with(&old.public));
    let seen = public(&plain, "sa", Kind::Key).unwrap();
    assert!(new.public.starts_with(seen.present.trim()));
    let error = load(&plain).err().unwrap().to_string();
    assert!(
        error.contains("sa.key.sealed: ") && error.contains("archive.key.age is encrypted\nhint: "),
        "{error}"
    );
    begin(&store, "sa", Kind::Key, "").unwrap();
    cancel(&store, "sa", Kind::Key).unwrap();
    assert!(!store.path("sa.next.key.sealed").exists());
}

/// The key of kubeadm stays on the hosts.
#[test]
fn authority_elsewhere_has_a_key_after_the_switch_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    assert!(load(&store, "ca", Kind::Ca).is_err());
    let other = CertificateStore::new(dir.path().join("other"));
    let old = Ca::load_or_create(&other, "old")
        .unwrap()
        .certificate()
        .to_owned();
    record(&store, "ca", Kind::Ca, &old).unwrap();
    begin(&store, "ca", Kind::Ca, "new").unwrap();
    let before = load(&store, "ca", Kind::Ca).unwrap();
    assert!(before.key.is_none());
    assert_eq!(
        (subjects(&before.trusted), subjects(&before.present)),
        (
            vec!["old".to_owned(), "new".to_owned()],
            vec!["old".to_owned()]
        )
    );
    switch(&store, "ca", Kind::Ca).unwrap();
    let after = load(&store, "ca", Kind::Ca).unwrap();
    assert!(after.key.is_some());
    assert_eq!(
        (subjects(&after.trusted), subjects(&after.present)),
        (
            vec!["new".to_owned(), "old".to_owned()],
            vec!["new".to_owned()]
        )
    );
    finish(&store, "ca", Kind::Ca).unwrap();
    assert_eq!(
        subjects(&load(&store, "ca", Kind::Ca).unwrap().trusted),
        ["new"]
    );
}
