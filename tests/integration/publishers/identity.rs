//! Signatures of an identity: the expected one, and similar ones.

use kubexm_sigstore::{Signer, Trust, TrustedRoot};
use kubexm_types::Digest;
use kubexm_types::signature_policy::Identity;
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

use super::authority::{self, BEGIN, IDENTITY, ISSUER, Sigstore, Wish, manifest};
use super::{by_identity, claimed, image, root, verify, wanted};
use crate::example::InMemory;

#[test]
fn expected_identity_is_accepted() {
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
fn one_valid_signature_among_others_is_enough() {
    let _filters = super::filters();
    let sigstore = Sigstore::new();
    let mut blobs = InMemory::default();
    let other_signer = Wish {
        identity: "other@elsewhere.example",
        ..Wish::right(image())
    };
    let mut claims = vec![
        sigstore.claim(&mut blobs, &other_signer),
        sigstore.claim(&mut blobs, &other_signer),
    ];
    let manifest_of_other = manifest(&mut blobs, &claims);
    let refusal = by_identity(&sigstore, &blobs, &manifest_of_other).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: none of its 2 signatures is valid: it is by other@elsewhere.example (https://accounts.example)");
    claims.push(sigstore.claim(&mut blobs, &Wish::right(image())));
    let manifest = manifest(&mut blobs, &claims);
    by_identity(&sigstore, &blobs, &manifest).unwrap();
}

/// Every fault is refused with its own reason.
#[test]
fn signatures_of_other_identities_are_refused_with_the_reason() {
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
            "(no name)",
        ),
        (
            Wish {
                usage: ExtendedKeyUsagePurpose::ServerAuth,
                ..right.clone()
            },
            "not for code signing",
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
            "valid from 2024-01-01T00:00:00Z to 2024-01-01T00:10:00Z, but the signature was made at \
             2023-12-31T23:59:59Z",
        ),
        (
            Wish {
                logged_at: BEGIN + 601,
                ..right.clone()
            },
            "but the signature was made at 2024-01-01T00:10:01Z",
        ),
        (
            Wish {
                signed: Some(authority::payload(&other)),
                ..right.clone()
            },
            "its signature is of other content",
        ),
        (
            Wish {
                logged: Some(authority::payload(&other)),
                ..right.clone()
            },
            "its log entry of 2024-01-01T00:01:00Z is about another signature",
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
        let refusal = by_identity(&sigstore, &blobs, &manifest).unwrap_err();
        assert!(refusal.contains(reason), "{at}: {refusal}");
    }
    let (blobs, manifest) = claimed(&sigstore, &right);
    by_identity(&sigstore, &blobs, &manifest).unwrap();
    // All documents are valid, but from another Sigstore instance, or from one outside of its validity.
    let refusal = by_identity(&Sigstore::new(), &blobs, &manifest).unwrap_err();
    assert!(refusal.contains("an unknown transparency log"), "{refusal}");
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
            "no trusted authority issued",
        ),
    ] {
        let mut document = sigstore.trusted_root();
        *document.pointer_mut(path).unwrap() = period;
        let root = TrustedRoot::parse(document.to_string().as_bytes()).unwrap();
        let trust = wanted();
        let refusal = verify(&blobs, text.as_bytes(), Trust::Identity(&trust, &root)).unwrap_err();
        assert!(refusal.contains(reason), "{path}: {refusal}");
    }
}

/// The log of one instance, the certificate authority of another.
#[test]
fn certificate_authority_with_the_same_name_is_not_trusted() {
    let _filters = super::filters();
    let (sigstore, twin) = (Sigstore::new(), Sigstore::new());
    let mut mixed = sigstore.trusted_root();
    mixed["certificateAuthorities"] = twin.trusted_root()["certificateAuthorities"].take();
    let root = TrustedRoot::parse(mixed.to_string().as_bytes()).unwrap();
    let (blobs, manifest) = claimed(&sigstore, &Wish::right(image()));
    let (identity, text) = (wanted(), manifest.to_string());
    let refusal = verify(&blobs, text.as_bytes(), Trust::Identity(&identity, &root)).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: no trusted authority issued its certificate; the certificate names 'CN=test intermediate' as its issuer");
}

/// Every byte that counts is changed after the signature.
#[test]
fn changed_signature_documents_are_refused() {
    let _filters = super::filters();
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
        (&bundle, json!(""), "has no transparency log entry"),
        (&bundle, Value::Null, "has no transparency log entry"),
        (
            &certificate,
            json!(""),
            "has no certificate; use a policy with that key",
        ),
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
        (&signature, json!("!!!"), "not valid base64"),
        (&signature, json!("A".repeat(8000)), "not valid base64"),
    ] {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = value.clone();
        let refusal = by_identity(&sigstore, &blobs, &changed).unwrap_err();
        assert!(refusal.contains(reason), "{path} {value}: {refusal}");
    }
    by_identity(&sigstore, &blobs, &good).unwrap();
    // And the signed payload.
    let mut damaged = InMemory(blobs.0.clone());
    for content in damaged.0.values_mut() {
        content.push(b' ');
    }
    let refusal = by_identity(&sigstore, &damaged, &good).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: the signed payload was changed");
}
