//! Images that their publishers signed: what is taken, and that nothing else is.

mod authority;
mod cosign;
mod in_bundles;
mod layout;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm::catalog::Catalog;
use kubexm::sigstore::file::verify_file;
use kubexm::sigstore::{Part, Signer, Trust, TrustedRoot, document};
use kubexm::spec::signature_policy::{Identity, Rule, SignedBy};
use kubexm::spec::{Digest, VerifyingKey};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

use crate::example::InMemory;
use authority::{BEGIN, IDENTITY, ISSUER, Sigstore, Wish, manifest};

fn image() -> Digest {
    Digest::of(b"an image")
}

fn wanted() -> Identity {
    Identity {
        identity: IDENTITY.to_owned(),
        issuer: ISSUER.to_owned(),
    }
}

fn root(sigstore: &Sigstore) -> TrustedRoot {
    TrustedRoot::parse(sigstore.trusted_root().to_string().as_bytes()).unwrap()
}

/// What becomes of a signature manifest.
fn verify(blobs: &InMemory, manifest: &[u8], trust: Trust<'_>) -> Result<Signer, String> {
    let payload = |part: &Part| blobs.0.get(&part.digest).cloned().ok_or("not there".into());
    let manifest = document::read(manifest)?;
    kubexm::sigstore::verify(&manifest, &payload, &image(), trust).map_err(|e| e.to_string())
}

fn by_identity(sigstore: &Sigstore, blobs: &InMemory, manifest: &Value) -> Result<Signer, String> {
    let (identity, root) = (wanted(), root(sigstore));
    let manifest = manifest.to_string();
    verify(
        blobs,
        manifest.as_bytes(),
        Trust::Identity(&identity, &root),
    )
}

/// One claim, made as a test wishes it.
fn claimed(sigstore: &Sigstore, wish: &Wish) -> (InMemory, Value) {
    let mut blobs = InMemory::default();
    let claim = sigstore.claim(&mut blobs, wish);
    let manifest = manifest(&mut blobs, &[claim]);
    (blobs, manifest)
}

/// Images and programs of Kubernetes have different signers, which are easily mistaken for each other
/// (<https://kubernetes.io/docs/tasks/administer-cluster/verify-signed-artifacts/>).
#[test]
fn the_catalog_knows_who_signs_for_kubernetes() {
    let known = |prefix: &str| {
        let policies = Catalog::embedded().unwrap().signatures();
        let policy = policies.into_iter().find(|p| p.prefix.covers(prefix));
        let Some(Rule::IfPresent(SignedBy::Identity { identity, .. })) = policy.map(|p| p.rule)
        else {
            panic!("{prefix}");
        };
        identity.to_string()
    };
    let google = "@k8s-releng-prod.iam.gserviceaccount.com by https://accounts.google.com";
    assert_eq!(
        known("registry.k8s.io/pause"),
        format!("krel-trust{google}")
    );
    let kubeadm = "dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubeadm";
    assert_eq!(known(kubeadm), format!("krel-staging{google}"));
}

#[test]
fn the_wanted_identity_is_taken() {
    let sigstore = Sigstore::new();
    let uri = "https://github.example/a/.github/workflows/release.yaml@refs/tags/v1";
    for (identity, extensions) in [
        (IDENTITY, (true, true)),
        (IDENTITY, (true, false)),
        (IDENTITY, (false, true)),
        (uri, (true, true)),
    ] {
        let wish = Wish {
            identity,
            extensions,
            ..Wish::right(image())
        };
        let (blobs, manifest) = claimed(&sigstore, &wish);
        let wanted = Identity {
            identity: identity.to_owned(),
            ..wanted()
        };
        let root = root(&sigstore);
        let text = manifest.to_string();
        let signer = verify(&blobs, text.as_bytes(), Trust::Identity(&wanted, &root)).unwrap();
        assert_eq!(
            signer,
            Signer::Identity {
                subject: identity.to_owned(),
                issuer: ISSUER.to_owned(),
                trusted_root: root.own_digest(),
            }
        );
    }
}

#[test]
fn one_good_signature_among_others_is_enough() {
    let sigstore = Sigstore::new();
    let mut blobs = InMemory::default();
    let stranger = Wish {
        identity: "stranger@elsewhere.example",
        ..Wish::right(image())
    };
    let mut claims = vec![
        sigstore.claim(&mut blobs, &stranger),
        sigstore.claim(&mut blobs, &stranger),
    ];
    let strangers = manifest(&mut blobs, &claims);
    let told = by_identity(&sigstore, &blobs, &strangers).unwrap_err();
    assert!(
        told.contains("none of its 2 signatures") && told.contains("stranger@elsewhere.example"),
        "{told}"
    );
    claims.push(sigstore.claim(&mut blobs, &Wish::right(image())));
    let manifest = manifest(&mut blobs, &claims);
    by_identity(&sigstore, &blobs, &manifest).unwrap();
}

/// Every wish but the right one is refused, for its own reason.
#[test]
fn what_a_stranger_could_sign_is_refused_and_the_reason_told() {
    let sigstore = Sigstore::new();
    let right = Wish::right(image());
    let other = Digest::of(b"another image");
    let cases: Vec<(Wish, &str)> = vec![
        (
            Wish {
                identity: "robot@builds.example.evil.example",
                ..right.clone()
            },
            "it is by robot@builds.example.evil.example (https://accounts.example)",
        ),
        (
            Wish {
                issuer: "https://accounts.evil.example",
                ..right.clone()
            },
            "it is by robot@builds.example (https://accounts.evil.example)",
        ),
        (
            Wish {
                extensions: (false, false),
                ..right.clone()
            },
            "(nobody)",
        ),
        (
            Wish {
                usage: ExtendedKeyUsagePurpose::ServerAuth,
                ..right.clone()
            },
            "not for signing",
        ),
        (
            Wish {
                image: other,
                ..right.clone()
            },
            "it is a signature of sha256:",
        ),
        (
            Wish {
                logged_at: BEGIN - 1,
                ..right.clone()
            },
            "good from 2024-01-01T00:00:00Z to 2024-01-01T00:10:00Z, and the signature is of \
             2023-12-31T23:59:59Z",
        ),
        (
            Wish {
                logged_at: BEGIN + 601,
                ..right.clone()
            },
            "and the signature is of 2024-01-01T00:10:01Z",
        ),
        (
            Wish {
                signed: Some(authority::payload(&other)),
                ..right.clone()
            },
            "its signature is of something else",
        ),
        (
            Wish {
                logged: Some(authority::payload(&other)),
                ..right.clone()
            },
            "its entry of the log, of 2024-01-01T00:01:00Z, is about another signature",
        ),
        (
            Wish {
                logged_other: true,
                ..right.clone()
            },
            "is about another signature",
        ),
    ];
    for (at, (wish, reason)) in cases.iter().enumerate() {
        let (blobs, manifest) = claimed(&sigstore, wish);
        let told = by_identity(&sigstore, &blobs, &manifest).unwrap_err();
        assert!(told.contains(reason), "{at}: {told}");
    }
    let (blobs, manifest) = claimed(&sigstore, &right);
    by_identity(&sigstore, &blobs, &manifest).unwrap();
    // All of it right, but by another Sigstore, and by one whose time had come or not yet.
    let told = by_identity(&Sigstore::new(), &blobs, &manifest).unwrap_err();
    assert!(told.contains("by no authority that is trusted"), "{told}");
    let text = manifest.to_string();
    for (path, period, reason) in [
        (
            "/tlogs/0/publicKey/validFor",
            json!({"start": "2024-01-01T00:01:01Z"}),
            "a log that is not trusted",
        ),
        (
            "/certificateAuthorities/0/validFor",
            json!({"end": "2024-01-01T00:00:59Z"}),
            "no authority that is trusted",
        ),
    ] {
        let mut document = sigstore.trusted_root();
        *document.pointer_mut(path).unwrap() = period;
        let root = TrustedRoot::parse(document.to_string().as_bytes()).unwrap();
        let trust = wanted();
        let told = verify(&blobs, text.as_bytes(), Trust::Identity(&trust, &root)).unwrap_err();
        assert!(told.contains(reason), "{path}: {told}");
    }
}

/// The log of one Sigstore, the authority of another.
#[test]
fn an_authority_of_the_same_name_is_another_one() {
    let (sigstore, twin) = (Sigstore::new(), Sigstore::new());
    let mut mixed = sigstore.trusted_root();
    mixed["certificateAuthorities"] = twin.trusted_root()["certificateAuthorities"].take();
    let root = TrustedRoot::parse(mixed.to_string().as_bytes()).unwrap();
    let (blobs, manifest) = claimed(&sigstore, &Wish::right(image()));
    let (identity, text) = (wanted(), manifest.to_string());
    let told = verify(&blobs, text.as_bytes(), Trust::Identity(&identity, &root)).unwrap_err();
    assert!(
        told.contains("by no authority that is trusted; it says that 'CN=test intermediate'"),
        "{told}"
    );
}

/// Every byte that counts, changed after all was signed.
#[test]
fn nothing_may_be_changed_afterwards() {
    let sigstore = Sigstore::new();
    let (blobs, good) = claimed(&sigstore, &Wish::right(image()));
    let (_, other) = claimed(&sigstore, &Wish::right(image()));
    let annotation = |name: &str| format!("/layers/0/annotations/{name}");
    let pointer = |name: &str| annotation(&name.replace('/', "~1"));
    let bundle = pointer("dev.sigstore.cosign/bundle");
    let entry: Value =
        serde_json::from_str(good.pointer(&bundle).unwrap().as_str().unwrap()).unwrap();
    let with_entry = |path: &str, value: Value| {
        let mut entry = entry.clone();
        *entry.pointer_mut(path).unwrap() = value;
        Value::from(entry.to_string())
    };
    let of_other = |path: &str| other.pointer(path).unwrap().clone();
    let certificate = pointer("dev.sigstore.cosign/certificate");
    let signature = pointer("dev.cosignproject.cosign/signature");
    let text = entry.to_string();
    for (path, value, reason) in [
        (&certificate, of_other(&certificate), "another signature"),
        (&signature, of_other(&signature), "another signature"),
        (&bundle, of_other(&bundle), "another signature"),
        (
            &bundle,
            with_entry("/Payload/integratedTime", json!(BEGIN + 61)),
            "not signed by that log",
        ),
        (
            &bundle,
            with_entry("/Payload/logIndex", json!(8)),
            "not signed by that log",
        ),
        (
            &bundle,
            with_entry("/Payload/body", json!("e30=")),
            "not signed by that log",
        ),
        (
            &bundle,
            with_entry("/Payload/logID", json!("c0ffee")),
            "a log that is not trusted",
        ),
        (
            &bundle,
            with_entry("/SignedEntryTimestamp", json!("AAAA")),
            "not signed by that log",
        ),
        (&bundle, json!(text[..text.len() / 2]), "cannot be read"),
        (&bundle, json!(""), "has no entry of a log"),
        (&bundle, Value::Null, "has no entry of a log"),
        (&certificate, json!(""), "names no identity"),
        (
            &certificate,
            json!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "certificate cannot be read",
        ),
        (
            &certificate,
            json!("x".repeat(70_000)),
            "certificate cannot be read",
        ),
        (&signature, json!("!!!"), "no base64"),
        (&signature, json!("A".repeat(8000)), "no base64"),
    ] {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = value.clone();
        let told = by_identity(&sigstore, &blobs, &changed).unwrap_err();
        assert!(told.contains(reason), "{path} {value}: {told}");
    }
    by_identity(&sigstore, &blobs, &good).unwrap();
    // And what is signed itself.
    let mut spoiled = InMemory(blobs.0.clone());
    for content in spoiled.0.values_mut() {
        content.push(b' ');
    }
    let told = by_identity(&sigstore, &spoiled, &good).unwrap_err();
    assert!(told.contains("what is signed was changed"), "{told}");
}

#[test]
fn documents_that_are_none_are_named() {
    let (sigstore, mut blobs) = (Sigstore::new(), InMemory::default());
    let claim = sigstore.claim(&mut blobs, &Wish::right(image()));
    let good = manifest(&mut blobs, std::slice::from_ref(&claim));
    let text = good.to_string();
    for cut in (0..text.len()).step_by(97) {
        assert!(document::read(&text.as_bytes()[..cut]).is_err(), "{cut}");
    }
    let many = manifest(&mut blobs, &vec![claim.clone(); 300]);
    let mut huge = claim.clone();
    huge["size"] = json!(1_u64 << 40);
    let mut two_sizes = claim.clone();
    two_sizes["size"] = json!(1);
    let mut strange_type = good.clone();
    strange_type["mediaType"] = json!("a/b\u{7}");
    let strange = json!({"mediaType": "a/b", "digest": image(), "size": 1});
    for (wrong, reason) in [
        (json!([]), "is no signature manifest"),
        (strange_type, "is a 'a/b\\u{7}', no signature manifest"),
        (
            json!({"config": {}, "layers": 1}),
            "is no signature manifest",
        ),
        (many, "more than 256"),
        (manifest(&mut blobs, &[huge]), "impossible size"),
        (manifest(&mut blobs, &[claim, two_sizes]), "two sizes"),
        (manifest(&mut blobs, &[strange]), "carries no signature"),
        (manifest(&mut blobs, &[]), "carries no signature"),
    ] {
        let told = by_identity(&sigstore, &blobs, &wrong).unwrap_err();
        assert!(told.contains(reason), "{told}");
    }
    let long = vec![b' '; document::LARGEST_MANIFEST + 1];
    assert!(document::read(&long).unwrap_err().contains("larger than"));
    for (payload, reason) in [
        (&b"{"[..], "cannot be read"),
        (b"[[[[", "cannot be read"),
        (
            br#"{"critical":{"type":"x","image":{"docker-manifest-digest":"sha256:00"}}}"#,
            "digest",
        ),
    ] {
        assert!(document::image_of(payload).unwrap_err().contains(reason));
    }
    for wrong in ["", "{}", r#"{"tlogs":[],"certificateAuthorities":[]}"#] {
        assert!(TrustedRoot::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    TrustedRoot::public_instance().unwrap();
}

#[test]
fn what_lies_beside_a_file_must_be_its_signature_by_the_wanted_identity() {
    let (sigstore, content) = (Sigstore::new(), b"a program");
    let (identity, root) = (wanted(), root(&sigstore));
    let check = |content: &[u8], signature: &str, certificate: Option<&str>| {
        let certificate = certificate.map(str::as_bytes);
        let trust = Trust::Identity(&identity, &root);
        verify_file(content, signature.as_bytes(), certificate, trust).map_err(|e| e.to_string())
    };
    let (signature, certificate) = sigstore.beside(content, &Wish::right(image()));
    let signer = check(content, &signature, Some(&certificate)).unwrap();
    assert!(matches!(signer, Signer::Identity { subject, .. } if subject == IDENTITY));
    let pem = String::from_utf8(STANDARD.decode(&certificate).unwrap()).unwrap();
    check(content, &format!("{signature}\n"), Some(&pem)).unwrap();

    let (other_signature, other_certificate) = sigstore.beside(content, &Wish::right(image()));
    let stranger = Wish {
        identity: "stranger@elsewhere.example",
        ..Wish::right(image())
    };
    let (by_stranger, strangers) = sigstore.beside(content, &stranger);
    let (elsewhere, elsewheres) = Sigstore::new().beside(content, &Wish::right(image()));
    let long = "A".repeat(70_000);
    for (content, signature, certificate, reason) in [
        (
            &b"another"[..],
            &signature,
            Some(&certificate),
            "of something else",
        ),
        (
            content,
            &other_signature,
            Some(&certificate),
            "by another key",
        ),
        (
            content,
            &signature,
            Some(&other_certificate),
            "by another key",
        ),
        (
            content,
            &by_stranger,
            Some(&strangers),
            "it is by stranger@elsewhere.example",
        ),
        (
            content,
            &elsewhere,
            Some(&elsewheres),
            "by no authority that is trusted",
        ),
        (content, &signature, None, "no certificate"),
        (content, &long, Some(&certificate), "no base64"),
        (content, &"!".to_owned(), Some(&certificate), "no base64"),
        (
            content,
            &signature,
            Some(&long),
            "certificate cannot be read",
        ),
        (
            content,
            &signature,
            Some(&signature),
            "certificate cannot be read",
        ),
    ] {
        let told = check(content, signature, certificate.map(String::as_str)).unwrap_err();
        assert!(told.contains(reason), "{reason}: {told}");
    }
}

/// Keys as openssl writes them, of each kind that is taken, and one that is not.
#[test]
fn keys_of_every_kind_hold_what_openssl_signed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let openssl = |arguments: &[&str]| {
        let output = std::process::Command::new("openssl")
            .args(arguments)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {words}");
    };
    let (message, signature, key, public) = (at("message"), at("sig"), at("key"), at("pub"));
    std::fs::write(&message, authority::payload(&image())).unwrap();
    for (kind, digest) in [
        (
            &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"][..],
            Some("-sha256"),
        ),
        (
            &["EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
            Some("-sha256"),
        ),
        (
            &["EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
            Some("-sha384"),
        ),
        (
            &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            Some("-sha256"),
        ),
        (&["ED25519"], None),
    ] {
        openssl(&[&["genpkey", "-out", &key, "-algorithm"], kind].concat());
        openssl(&["pkey", "-in", &key, "-pubout", "-out", &public]);
        match digest {
            Some(digest) => {
                openssl(&["dgst", digest, "-sign", &key, "-out", &signature, &message]);
            }
            None => openssl(&[
                "pkeyutl", "-sign", "-rawin", "-inkey", &key, "-in", &message, "-out", &signature,
            ]),
        }
        let parsed: VerifyingKey = std::fs::read_to_string(&public).unwrap().parse().unwrap();
        let (message, signature) = (
            std::fs::read(&message).unwrap(),
            std::fs::read(&signature).unwrap(),
        );
        assert!(parsed.verifies(&message, &signature), "{kind:?} {digest:?}");
        assert!(!parsed.verifies(&message[1..], &signature), "{kind:?}");
        assert_eq!(parsed.to_string().parse::<VerifyingKey>().unwrap(), parsed);
    }
    openssl(&["genpkey", "-out", &key, "-algorithm", "X25519"]);
    openssl(&["pkey", "-in", &key, "-pubout", "-out", &public]);
    for text in [
        std::fs::read_to_string(&public).unwrap(),
        std::fs::read_to_string(&key).unwrap(),
        String::new(),
        "AAAA".to_owned(),
        "A".repeat(100_000),
    ] {
        assert!(text.parse::<VerifyingKey>().is_err(), "{text:.60}");
    }
}
