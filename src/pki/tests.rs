use crate::fingerprint::pem_content;
use crate::{
    Ca, Certificate, CertificateStore, KeyIdentity, Leaf, Pair, PkiError, SigningKey, Usage,
    ca_fingerprint, key_fingerprint, public_key_pin,
};

fn days_left(certificate: &str) -> i64 {
    Certificate::first("x", certificate).unwrap().days_left()
}

#[test]
fn server_certificate_is_kept_until_its_names_change() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let mut leaf = Leaf::server(
        "registry",
        vec!["registry.example".to_owned(), "10.0.0.1".to_owned()],
    );
    let first = ca.issue(&store, "registry", &leaf).unwrap();
    let again = Ca::load_or_create(&store, "ca").unwrap();
    let second = again.issue(&store, "registry", &leaf).unwrap();
    assert_eq!(first.certificate, second.certificate);
    leaf.names.pop();
    let third = again.issue(&store, "registry", &leaf).unwrap();
    assert_ne!(first.certificate, third.certificate);
}

#[test]
fn certificate_is_signed_by_the_ca() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let leaf = ca
        .issue(
            &store,
            "registry",
            &Leaf::server("registry", vec!["registry.example".to_owned()]),
        )
        .unwrap();
    let ca_der = pem_content("ca", ca.certificate()).unwrap();
    let leaf_der = pem_content("leaf", &leaf.certificate).unwrap();
    let (_, ca_cert) = x509_parser::parse_x509_certificate(&ca_der).unwrap();
    let (_, leaf_cert) = x509_parser::parse_x509_certificate(&leaf_der).unwrap();
    assert_eq!(leaf_cert.issuer(), ca_cert.subject());
    assert!(leaf_cert.subject_alternative_name().unwrap().is_some());
    assert!((360..=365).contains(&days_left(&leaf.certificate)));
    assert!(
        public_key_pin(ca.certificate())
            .unwrap()
            .starts_with("sha256:")
    );
}

#[test]
fn certificates_permit_only_their_use() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    for (usage, for_servers, for_clients) in [
        (Usage::Server, true, false),
        (Usage::Client, false, true),
        (Usage::Peer, true, true),
    ] {
        let leaf = Leaf {
            usage,
            ..Leaf::server("leaf", vec!["a.example".to_owned()])
        };
        let pair = ca.issue(&store, &format!("{usage:?}"), &leaf).unwrap();
        let der = pem_content("leaf", &pair.certificate).unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
        assert!(!parsed.is_ca(), "{usage:?}");
        let extended = parsed.extended_key_usage().unwrap().unwrap().value;
        let found = (extended.server_auth, extended.client_auth);
        assert_eq!(found, (for_servers, for_clients), "{usage:?}");
    }
}

#[test]
fn certificates_are_valid_as_long_as_configured_and_follow_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let store = |days, ca_days| {
        let validity = kubexm_config::cluster::Validity { days, ca_days };
        CertificateStore::new(dir.path()).valid_for(validity)
    };
    let leaf = Leaf::client("admin", None);
    let issue = |store: &CertificateStore| {
        let ca = Ca::load_or_create(store, "ca").unwrap();
        let pair = ca.issue(store, "admin", &leaf).unwrap();
        let left = days_left(&pair.certificate);
        (days_left(ca.certificate()), left, pair.certificate)
    };
    // A third of the validity is left when kubexm renews, so a short one is not renewed by each install.
    let short = store(20, 100);
    let (ca, left, first) = issue(&short);
    assert!(
        (99..=100).contains(&ca) && (19..=20).contains(&left),
        "{ca} {left}"
    );
    assert_eq!(issue(&short).2, first);
    let (ca, left, second) = issue(&store(90, 4000));
    assert!(
        (99..=100).contains(&ca) && (89..=90).contains(&left),
        "{ca} {left}"
    );
    assert_ne!(second, first);
}

/// A CA of a running cluster, whose certificate and key must survive.
fn store_with_ca() -> (tempfile::TempDir, CertificateStore, Pair) {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let pair = Ca::load_or_create(&store, "ca").unwrap().pair().unwrap();
    (dir, store, pair)
}

#[test]
fn ca_whose_key_is_elsewhere_is_kept_and_its_certificates_are_used() {
    let (dir, store, pair) = store_with_ca();
    let leaf = Leaf::client("admin", None);
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let issued = ca.issue(&store, "admin", &leaf).unwrap();
    std::fs::remove_file(dir.path().join("ca.key")).unwrap();
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    assert_eq!(ca.certificate(), pair.certificate);
    let again = ca.issue(&store, "admin", &leaf).unwrap();
    assert_eq!(again.certificate, issued.certificate);
    let errors = [
        ca.issue(&store, "other", &leaf).err().unwrap().to_string(),
        ca.pair().err().unwrap().to_string(),
    ];
    let place = dir.path().display().to_string();
    insta::assert_snapshot!(errors.join("\n").replace(&place, "[dir]"), @"
    cannot issue the certificate other: [dir]/ca.key does not exist, but the certificate of this CA does
    hint: put the key back for this command: kubexm never creates a CA where one exists
    cannot write the key of the CA to the hosts: [dir]/ca.key does not exist, but the certificate of this CA does
    hint: put the key back for this command: kubexm never creates a CA where one exists
    ");
    assert!(!dir.path().join("ca.key").exists());
    let certificate = std::fs::read_to_string(dir.path().join("ca.crt")).unwrap();
    assert_eq!(certificate, pair.certificate);
}

#[test]
fn key_of_another_ca_is_refused() {
    let (dir, store, _) = store_with_ca();
    let (other, ..) = store_with_ca();
    std::fs::copy(other.path().join("ca.key"), dir.path().join("ca.key")).unwrap();
    let error = Ca::load_or_create(&store, "ca").err().unwrap();
    insta::assert_snapshot!(error, @"
    certificate or key ca: the key belongs to another certificate
    hint: restore both files from the same backup
    ");
}

/// A creation writes the key first.
#[test]
fn key_of_an_interrupted_creation_is_not_replaced() {
    let (dir, store, pair) = store_with_ca();
    std::fs::remove_file(dir.path().join("ca.crt")).unwrap();
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    assert_eq!(ca.pair().unwrap().key, pair.key);
    let key = std::fs::read_to_string(dir.path().join("ca.key")).unwrap();
    assert_eq!(key, pair.key);
}

fn identity() -> KeyIdentity {
    let identity = age::x25519::Identity::generate();
    let text = age::secrecy::ExposeSecret::expose_secret(&identity.to_string()).to_owned();
    KeyIdentity::parse(&format!("# created: today\n# public key: age1\n{text}\n")).unwrap()
}

#[test]
fn key_of_a_ca_is_encrypted_and_needed_only_to_sign() {
    let (dir, store, pair) = store_with_ca();
    let identity = identity();
    let encrypted = store.clone().encrypted(Some(identity.clone()));
    let ca = Ca::load_or_create(&encrypted, "ca").unwrap();
    assert_eq!(ca.pair().unwrap().key, pair.key);
    assert!(!dir.path().join("ca.key").exists());
    let content = std::fs::read(dir.path().join("ca.key.age")).unwrap();
    assert!(content.starts_with(b"age-encryption.org/v1\n"));
    // With the identity, all is as before.
    let leaf = Leaf::client("admin", None);
    let opened = Ca::load_or_create(&encrypted, "ca").unwrap();
    let issued = opened.issue(&store, "admin", &leaf).unwrap();
    assert_eq!(opened.certificate(), pair.certificate);
    // Without it, what exists is used, until the keys of certificates are encrypted as well.
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let again = ca.issue(&store, "admin", &leaf).unwrap();
    assert_eq!(again.certificate, issued.certificate);
    let sealed = opened.issue(&encrypted, "admin", &leaf).unwrap();
    assert_eq!(sealed.key, issued.key);
    assert!(!dir.path().join("admin.key").exists());
    let refused = ca.issue(&store, "admin", &leaf);
    assert!(matches!(refused, Err(PkiError::EncryptedKey { .. })));
    let other = self::identity();
    let wrong = Ca::load_or_create(&store.clone().encrypted(Some(other)), "ca");
    let errors = [
        ca.issue(&store, "other", &leaf).err().unwrap().to_string(),
        wrong.err().unwrap().to_string(),
    ];
    let place = dir.path().display().to_string();
    insta::assert_snapshot!(errors.join("\n").replace(&place, "[dir]"), @"
    cannot issue the certificate other: [dir]/ca.key.age is encrypted
    hint: pass what encrypted it: the identity file with --ca-identity, or the passphrase with --ca-passphrase-file
    certificate or key ca: cannot decrypt the key: No matching keys found
    hint: pass the identity file or the passphrase with which the key was encrypted
    ");
}

#[test]
fn key_of_a_ca_is_encrypted_with_a_passphrase() {
    let (dir, store, pair) = store_with_ca();
    let with = |identity| store.clone().encrypted(Some(identity));
    let right = || with(KeyIdentity::of_passphrase("correct horse"));
    Ca::load_or_create(&right(), "ca").unwrap();
    assert!(!dir.path().join("ca.key").exists());
    let content = std::fs::read(dir.path().join("ca.key.age")).unwrap();
    let text = String::from_utf8_lossy(&content);
    assert!(
        text.starts_with("age-encryption.org/v1\n-> scrypt "),
        "{text}"
    );
    assert!(!text.contains("PRIVATE KEY") && !text.contains("correct horse"));
    let ca = Ca::load_or_create(&right(), "ca").unwrap();
    assert_eq!(ca.pair().unwrap().key, pair.key);
    for wrong in [KeyIdentity::of_passphrase("wrong horse"), identity()] {
        let error = Ca::load_or_create(&with(wrong), "ca").err().unwrap();
        let error = error.to_string();
        assert!(
            error.contains("cannot decrypt the key") && error.contains("hint: "),
            "{error}"
        );
        assert!(!error.contains("horse"), "{error}");
    }
    let kept = std::fs::read(dir.path().join("ca.key.age")).unwrap();
    assert_eq!(kept, content);
}

#[test]
fn key_of_a_new_ca_is_never_in_clear_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path()).encrypted(Some(identity()));
    let key = Ca::load_or_create(&store, "ca")
        .unwrap()
        .pair()
        .unwrap()
        .key;
    let again = Ca::load_or_create(&store, "ca").unwrap();
    assert_eq!(again.pair().unwrap().key, key);
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let content = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains("PRIVATE KEY"));
    }
    // Its certificate is lost: the key is not replaced.
    std::fs::remove_file(dir.path().join("ca.crt")).unwrap();
    let error = Ca::load_or_create(&CertificateStore::new(dir.path()), "ca");
    assert!(matches!(error, Err(PkiError::EncryptedKey { .. })));
    assert!(!dir.path().join("ca.key").exists());
}

#[test]
fn identity_file_is_one_identity() {
    for wrong in ["", "# nothing", "AGE-SECRET-KEY-1", "a\nb", "age1public"] {
        assert!(KeyIdentity::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn fingerprints_are_those_of_the_files() {
    let (_dir, store, pair) = store_with_ca();
    let expected = kubexm_types::authority::fingerprints(&pair.certificate);
    assert_eq!(
        ca_fingerprint(&store, "ca").unwrap(),
        expected.first().copied()
    );
    assert_eq!(ca_fingerprint(&store, "none").unwrap(), None);
    let key = SigningKey::load_or_create(&store, "sa").unwrap();
    let expected = kubexm_types::authority::fingerprints(&key.public);
    assert_eq!(
        key_fingerprint(&store, "sa").unwrap(),
        expected.first().copied()
    );
}

/// Without the public key, all commands took the key for lost.
#[test]
fn public_key_of_service_accounts_exists_before_the_key_is_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let key = SigningKey::load_or_create(&store, "sa").unwrap();
    // The encryption fails, as with a full disk.
    std::fs::create_dir_all(dir.path().join("archive.pub/x")).unwrap();
    let failing = store.encrypted(Some(identity()));
    assert!(SigningKey::load_or_create(&failing, "sa").is_err());
    let public = std::fs::read_to_string(dir.path().join("sa.pub")).unwrap();
    assert_eq!(public, key.public);
}

/// Only keys that a command read were encrypted: not those of former settings.
#[test]
fn keys_that_a_cluster_does_not_use_any_more_are_encrypted() {
    let (dir, store, _) = store_with_ca();
    let below = store.subdirectory("rotation");
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let leaf = Leaf::client("x", None);
    let key = ca.issue(&store, "x", &leaf).unwrap().key;
    let signing = SigningKey::load_or_create(&below, "sa").unwrap();
    let files = [
        ("encryption-aescbc-1.key", "key1-0 AAAA"),
        ("unknown.key", "x"),
        (".kubexm-partial-a", "x"),
    ];
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let partial = std::fs::File::options()
        .write(true)
        .open(dir.path().join(".kubexm-partial-a"));
    let days = std::time::Duration::from_secs(2 * 24 * 60 * 60);
    partial
        .unwrap()
        .set_modified(std::time::SystemTime::now() - days)
        .unwrap();
    assert!(store.encrypt_remaining().is_empty() && dir.path().join("x.key").exists());
    let store = store.encrypted(Some(identity()));
    std::fs::create_dir(dir.path().join("x.key.sealed")).unwrap();
    assert_eq!(store.encrypt_remaining().len(), 1);
    std::fs::remove_dir(dir.path().join("x.key.sealed")).unwrap();
    assert!(store.encrypt_remaining().is_empty());
    let exists = |name: &str| dir.path().join(name).exists();
    for name in ["ca.key", "x.key", "rotation/sa.key", ".kubexm-partial-a"] {
        assert!(!exists(name), "{name}");
    }
    // Without its certificate, it can be the key of a CA.
    assert!(exists("unknown.key") && exists("ca.key.age") && exists("rotation/sa.pub"));
    let secret = |file: &str| store.secret(file).unwrap().unwrap();
    assert_eq!(secret("encryption-aescbc-1.key"), "key1-0 AAAA");
    assert_eq!(secret("x.key"), key);
    let below = store.subdirectory("rotation");
    assert_eq!(below.secret("sa.key").unwrap().unwrap(), signing.private);
}

/// An earlier kubexm issues the certificate again, with a key in clear text beside the encrypted one.
#[test]
fn certificate_with_two_keys_is_issued_again() {
    let (dir, store, _) = store_with_ca();
    let opened = store.clone().encrypted(Some(identity()));
    let ca = Ca::load_or_create(&opened, "ca").unwrap();
    let leaf = Leaf::client("x", None);
    let first = ca.issue(&opened, "x", &leaf).unwrap();
    let other = ca.issue(&opened, "other", &leaf).unwrap();
    std::fs::write(dir.path().join("x.crt"), &other.certificate).unwrap();
    std::fs::write(dir.path().join("x.key"), &other.key).unwrap();
    let again = ca.issue(&opened, "x", &leaf).unwrap();
    assert!(again.key != first.key && again.key != other.key);
    assert!(!dir.path().join("x.key").exists());
    let kept = ca.issue(&opened, "x", &leaf).unwrap();
    assert!(kept.key == again.key && kept.certificate == again.certificate);
}

/// `plan --diff` reads the certificates of a cluster and must not write any.
#[test]
fn read_only_store_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let leaf = Leaf::server("registry", vec!["registry.example".to_owned()]);
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let kept = ca.issue(&store, "registry", &leaf).unwrap();
    let files = || {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let store = CertificateStore::read_only(dir.path());
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let loaded = ca.issue(&store, "registry", &leaf).unwrap();
    assert_eq!(loaded.certificate, kept.certificate);
    let other = Leaf::server("registry", vec!["other.example".to_owned()]);
    let renewed = ca.issue(&store, "registry", &other).unwrap();
    assert_ne!(renewed.certificate, kept.certificate);
    ca.issue(&store, "new", &leaf).unwrap();
    Ca::load_or_create(&store, "new-ca").unwrap();
    SigningKey::load_or_create(&store, "sa").unwrap();
    Ca::load_or_create(&store.subdirectory("kubernetes"), "ca").unwrap();
    assert_eq!(files(), before);
}

#[test]
fn renewal_issues_each_certificate_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let issue = |store: &CertificateStore, name: &str| {
        let leaf = Leaf::client(name, None);
        ca.issue(store, name, &leaf).unwrap().certificate
    };
    let names = ["one", "other"];
    let before = names.map(|name| issue(&store, name));
    // Certificates have whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let since = time::OffsetDateTime::now_utc();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let renewing = store.clone().renewing(since, ["other".to_owned()].into());
    let after = names.map(|name| issue(&renewing, name));
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);
    assert_eq!(names.map(|name| issue(&renewing, name)), after);
    assert_eq!(names.map(|name| issue(&store, name)), after);
}

/// Returns a certificate that begins in seven hours.
fn of_future(is_ca: bool) -> Pair {
    let mut params = rcgen::CertificateParams::default();
    params.not_before = time::OffsetDateTime::now_utc() + time::Duration::hours(7);
    params.not_after = params.not_before + time::Duration::days(365);
    if is_ca {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    Pair {
        certificate: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

/// The clock of the machine was ahead, and is right now: hosts refuse the certificate until its beginning.
#[test]
fn certificate_that_is_not_valid_yet_is_issued_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let leaf = Leaf::client("x", None);
    let issue = |ca: &Ca| ca.issue(&store, "x", &leaf).unwrap().certificate;
    let issued = issue(&ca);
    assert_eq!(issue(&ca), issued);
    let pair = of_future(false);
    store.save("x", &pair).unwrap();
    let again = issue(&ca);
    assert_ne!(again, pair.certificate);
    assert_eq!(issue(&ca), again);
}

/// The clock of the machine went back to the year of its manufacture, for example. A new certificate would have expired as soon
/// as the clock is right.
#[test]
fn certificate_is_kept_if_its_ca_is_not_valid_yet() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    store.save("ca", &of_future(true)).unwrap();
    let ca = Ca::load_or_create(&store, "ca").unwrap();
    let leaf = Leaf::client("x", None);
    ca.issue(&store, "x", &leaf).unwrap();
    let kept = of_future(false);
    store.save("x", &kept).unwrap();
    let found = ca.issue(&store, "x", &leaf).unwrap();
    assert_eq!(found.certificate, kept.certificate);
}
