//! Documents of signatures, keys, and signatures beside files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_sigstore::{Signer, Trust, TrustedRoot, document, limits, simple_signing};
use kubexm_types::VerifyingKey;
use serde_json::json;

use super::authority::{self, IDENTITY, ISSUER, Sigstore, Wish, manifest};
use super::{by_identity, claimed, image, root, verify, verify_file, wanted};
use crate::example::InMemory;

#[test]
fn invalid_documents_are_named() {
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
    let unknown_type = json!({"mediaType": "a/b", "digest": image(), "size": 1});
    for (wrong, reason) in [
        (json!([]), "is not a signature manifest"),
        (strange_type, "is a 'a/b\\u{7}', not a signature manifest"),
        (
            json!({"config": {}, "layers": 1}),
            "is not a signature manifest",
        ),
        (many, "more than 256"),
        (manifest(&mut blobs, &[huge]), "with a size above the limit"),
        (manifest(&mut blobs, &[claim, two_sizes]), "two sizes"),
        (
            manifest(&mut blobs, &[unknown_type]),
            "does not carry a cosign signature",
        ),
        (
            manifest(&mut blobs, &[]),
            "does not carry a cosign signature",
        ),
    ] {
        let refusal = by_identity(&sigstore, &blobs, &wrong).unwrap_err();
        assert!(refusal.contains(reason), "{refusal}");
    }
    let long = vec![b' '; limits::LARGEST_MANIFEST + 1];
    assert!(document::read(&long).unwrap_err().contains("larger than"));
    for (payload, reason) in [
        (&b"{"[..], "cannot be read"),
        (b"[[[[", "cannot be read"),
        (
            br#"{"critical":{"type":"x","image":{"docker-manifest-digest":"sha256:00"}}}"#,
            "digest",
        ),
    ] {
        assert!(
            simple_signing::image_of(payload)
                .unwrap_err()
                .contains(reason)
        );
    }
    for wrong in ["", "{}", r#"{"tlogs":[],"certificateAuthorities":[]}"#] {
        assert!(TrustedRoot::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    TrustedRoot::public_instance().unwrap();
}

#[test]
fn detached_bundle_must_be_the_signature_of_the_expected_identity() {
    let (sigstore, content) = (Sigstore::new(), b"a program");
    let (identity, root) = (wanted(), root(&sigstore));
    let check = |content: &[u8], signature: &str, certificate: Option<&str>| {
        let certificate = certificate.map(str::as_bytes);
        let trust = Trust::Identity(&identity, &root);
        verify_file(content, signature.as_bytes(), certificate, trust)
    };
    let (signature, certificate) = sigstore.beside(content, &Wish::right(image()));
    let signer = check(content, &signature, Some(&certificate)).unwrap();
    assert!(matches!(signer, Signer::Identity { subject, .. } if subject == IDENTITY));
    let pem = String::from_utf8(STANDARD.decode(&certificate).unwrap()).unwrap();
    check(content, &format!("{signature}\n"), Some(&pem)).unwrap();

    let (other_signature, other_certificate) = sigstore.beside(content, &Wish::right(image()));
    let other_signer = Wish {
        identity: "other@elsewhere.example",
        ..Wish::right(image())
    };
    let (signature_of_other, certificate_of_other) = sigstore.beside(content, &other_signer);
    let (elsewhere, elsewheres) = Sigstore::new().beside(content, &Wish::right(image()));
    let long = "A".repeat(70_000);
    for (content, signature, certificate, reason) in [
        (
            &b"another"[..],
            &signature,
            Some(&certificate),
            "of other content",
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
            &signature_of_other,
            Some(&certificate_of_other),
            "it is by other@elsewhere.example",
        ),
        (
            content,
            &elsewhere,
            Some(&elsewheres),
            "no trusted authority issued its certificate",
        ),
        (content, &signature, None, "no certificate"),
        (content, &long, Some(&certificate), "not valid base64"),
        (
            content,
            &"!".to_owned(),
            Some(&certificate),
            "not valid base64",
        ),
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
        let refusal = check(content, signature, certificate.map(String::as_str)).unwrap_err();
        assert!(refusal.contains(reason), "{reason}: {refusal}");
    }
}

/// The log of the public instance of 2025, which its trusted root names by the origin of its checkpoints.
#[test]
fn note_key_id_depends_on_key_and_name() {
    let key = "MCowBQYDK2VwAyEAt8rlp1knGwjfbcXAYPYAkn0XiLz1x8O4t0YkEhie244=";
    let key: VerifyingKey = key.parse().unwrap();
    let id = STANDARD.encode(key.note_id("log2025-1.rekor.sigstore.dev").bytes());
    assert_eq!(id, "zxGZFVvd0FEmjR8WrFwMdcAJ9vtaY/QXf44Y1wUeP6A=");
    assert_ne!(key.note_id("rekor.sigstore.dev"), key.note_id("log2025-1"));
}

/// Returns keys in the form of openssl, one of each supported kind, and an unsupported one.
#[test]
fn keys_of_every_kind_verify_signatures_of_openssl() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let openssl = |arguments: &[&str]| {
        let output = std::process::Command::new("openssl")
            .args(arguments)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {printed}");
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

/// For every changed byte, verification ends, and the signer is never another one.
#[test]
fn damaged_manifest_is_refused_or_has_the_same_meaning() {
    let sigstore = Sigstore::new();
    let (blobs, good) = claimed(&sigstore, &Wish::right(image()));
    let (identity, root, good) = (wanted(), root(&sigstore), good.to_string().into_bytes());
    let signer = Signer::Identity {
        subject: IDENTITY.to_owned(),
        issuer: ISSUER.to_owned(),
        trusted_root: root.own_digest(),
    };
    for at in (0..good.len()).step_by(37) {
        for change in [1, 0x20, 0x80] {
            let mut damaged = good.clone();
            damaged[at] ^= change;
            let answer = verify(&blobs, &damaged, Trust::Identity(&identity, &root));
            let shown = |reason: &String| !reason.contains(char::is_control);
            assert!(answer.as_ref().err().is_none_or(shown), "{at}: {answer:?}");
            assert!(
                answer.as_ref().ok().is_none_or(|s| *s == signer),
                "{at}: {answer:?}"
            );
        }
    }
}
