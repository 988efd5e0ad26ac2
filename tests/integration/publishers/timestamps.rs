//! Valid signatures in a log without timestamps, with timestamps beside them: kubexm and the real cosign give
//! the same result.

use kubexm_sigstore::Signer;
use serde_json::json;
use time::OffsetDateTime;

use super::authority::{BEGIN, IDENTITY, ISSUER, Wish};
use super::bundled::Bundled;
use super::bundles::{
    MANIFEST, cosign_verify_by, entry, kubexm_verify_by, verify_blob, with, without,
};
use super::image;
use super::second_rekor::{Second, entry_of, envelope_entry_of, stamped};
use super::timestamp_authority::{self, Made, TimestampAuthority};

const NO_SCT: &[&str] = &["--insecure-ignore-sct"];

#[test]
fn entry_of_a_rekor_2_log_is_accepted_like_by_cosign() {
    let second = Second::new();
    let root = second.trusted_root();
    let right = Wish::right(image());
    let signed = second.sigstore.sign_statement(&right, &Bundled::default());
    let good = second.right(&signed);
    cosign_verify_by(&root, NO_SCT, &good).unwrap();
    let signer = kubexm_verify_by(&root, &good).unwrap();
    assert!(
        matches!(&signer, Signer::Identity { subject, issuer, .. } if subject == IDENTITY && issuer == ISSUER)
    );
    // A bare manifest, which cosign signs like any other file.
    let message = second.right(&second.sigstore.sign_message(&right, MANIFEST));
    verify_blob(&root, &message).unwrap();
    assert_eq!(kubexm_verify_by(&root, &message).unwrap(), signer);
    // protobuf writers omit zeros.
    let bare = without(&good, &entry(""), "integratedTime");
    let bare = without(&bare, &entry(""), "inclusionPromise");
    cosign_verify_by(&root, NO_SCT, &bare).unwrap();
    assert_eq!(kubexm_verify_by(&root, &bare).unwrap(), signer);
    // Envelopes in the form of the first of these logs. cosign does not support them any more.
    let older = second.bundle(
        &signed,
        &envelope_entry_of(&signed),
        &timestamp_authority::Wish::right(),
    );
    assert_eq!(kubexm_verify_by(&root, &older).unwrap(), signer);
    // From authorities with each form of certificate.
    let without_signer = with(
        &root,
        "/timestampAuthorities/0",
        second.authority.trusted(false),
    );
    for (with_certificate, root, holds) in [
        (false, &root, true),
        (true, &without_signer, true),
        (false, &without_signer, false),
    ] {
        let wish = timestamp_authority::Wish {
            with_certificate,
            ..timestamp_authority::Wish::right()
        };
        let bundle = second.bundle(&signed, &entry_of(&signed), &wish);
        assert_eq!(cosign_verify_by(root, NO_SCT, &bundle).is_ok(), holds);
        assert_eq!(kubexm_verify_by(root, &bundle).is_ok(), holds);
    }
    // A second one of an unknown authority.
    let wish = timestamp_authority::Wish::right();
    let unknown = Second::new().authority.stamp(&wish, &signed.signature);
    let own = second.authority.stamp(&wish, &signed.signature);
    let both = stamped(&good, &[unknown, own]);
    cosign_verify_by(&root, NO_SCT, &both).unwrap();
    assert_eq!(kubexm_verify_by(&root, &both).unwrap(), signer);
    // Granted with modifications, and with a fraction of a second, as RFC 3161 allows; cosign refuses it.
    let wish = timestamp_authority::Wish {
        fraction: ".123456",
        status: 1,
        ..timestamp_authority::Wish::right()
    };
    let bundle = second.bundle(&signed, &entry_of(&signed), &wish);
    assert_eq!(kubexm_verify_by(&root, &bundle).unwrap(), signer);
}

/// Responses of `openssl ts` for the current time.
#[test]
fn openssl_timestamps_are_accepted_for_every_key_and_hash() {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let wish = Wish {
        begin: now - 60,
        ..Wish::right(image())
    };
    for key in [
        ["EC", "ec_paramgen_curve:P-256"],
        ["EC", "ec_paramgen_curve:P-384"],
        ["RSA", "rsa_keygen_bits:2048"],
    ] {
        let second = Second::with(&Made {
            key,
            until: now + 3650 * 86_400,
            ..Made::right()
        });
        let root = second.trusted_root();
        let root = without(&root, "/certificateAuthorities/0", "validFor");
        let signed = second.sigstore.sign_statement(&wish, &Bundled::default());
        let bare = signed.bundle(second.entry(&entry_of(&signed)));
        for (hash, more) in [
            ("sha256", &["-cert"][..]),
            ("sha384", &[]),
            ("sha512", &["-no_nonce"]),
        ] {
            let answer = second.authority.answer(hash, more, &signed.signature);
            let bundle = stamped(&bare, std::slice::from_ref(&answer));
            kubexm_verify_by(&root, &bundle)
                .unwrap_or_else(|refusal| panic!("{key:?} {hash}: {refusal}"));
            let other = second.authority.answer(hash, more, b"another signature");
            let refusal = kubexm_verify_by(&root, &stamped(&bare, &[other])).unwrap_err();
            assert!(refusal.contains("is of another signature"), "{refusal}");
        }
    }
}

/// Beside a promise, a timestamp of a trusted authority is additional evidence.
#[test]
fn timestamp_counts_only_if_its_authority_is_trusted() {
    let _filters = super::filters();
    let second = Second::new();
    let root = second.trusted_root();
    let right = Wish::right(image());
    let bundle = second.sigstore.bundle(&right, &Bundled::default());
    let signature = &bundle["dsseEnvelope"]["signatures"][0]["sig"];
    let signature = super::decoded(signature);
    let late = timestamp_authority::Wish {
        time: BEGIN + 601,
        ..timestamp_authority::Wish::right()
    };
    let other_signer = Second::new();
    let in_time = timestamp_authority::Wish::right();
    let beside = |authority: &TimestampAuthority, wish| {
        let bundle = stamped(&bundle, &[authority.stamp(wish, &signature)]);
        kubexm_verify_by(&root, &bundle)
    };
    beside(&second.authority, &in_time).unwrap();
    beside(&other_signer.authority, &late).unwrap();
    // Here cosign verifies only the promise; Sigstore's conformance tests require a refusal.
    let refusal = beside(&second.authority, &late).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: its certificate was valid from 2024-01-01T00:00:00Z to 2024-01-01T00:10:00Z, but the signature was made at 2024-01-01T00:10:01Z");
    let answer = json!({"rfc3161Timestamps": [{"signedTimestamp": "MAA="}]});
    let mut unreadable = bundle;
    unreadable["verificationMaterial"]["timestampVerificationData"] = answer;
    kubexm_verify_by(&root, &unreadable).unwrap();
}
