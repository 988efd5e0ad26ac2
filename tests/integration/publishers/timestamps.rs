//! Signatures in a log without a clock, with timestamps beside them: what is taken. What the real cosign
//! says of each, kubexm says, too.

use kubexm_sigstore::Signer;
use serde_json::json;
use time::OffsetDateTime;

use super::authority::{BEGIN, IDENTITY, ISSUER, Wish};
use super::bundled::Bundled;
use super::bundles::{MANIFEST, entry, ours_by, theirs_by, verify_blob, with, without};
use super::image;
use super::second_rekor::{Second, entry_of, envelope_entry_of, stamped};
use super::timestamp_authority::{self, Made, TimestampAuthority};

const NO_SCT: &[&str] = &["--insecure-ignore-sct"];

#[test]
fn what_a_log_without_a_clock_has_is_taken_as_cosign_takes_it() {
    let second = Second::new();
    let root = second.trusted_root();
    let right = Wish::right(image());
    let signed = second.sigstore.sign_statement(&right, &Bundled::default());
    let good = second.right(&signed);
    theirs_by(&root, NO_SCT, &good).unwrap();
    let signer = ours_by(&root, &good).unwrap();
    assert!(
        matches!(&signer, Signer::Identity { subject, issuer, .. } if subject == IDENTITY && issuer == ISSUER)
    );
    // A bare manifest, which cosign signs as any other file.
    let message = second.right(&second.sigstore.sign_message(&right, MANIFEST));
    verify_blob(&root, &message).unwrap();
    assert_eq!(ours_by(&root, &message).unwrap(), signer);
    // Zeros are left out by those who write protobuf.
    let bare = without(&good, &entry(""), "integratedTime");
    let bare = without(&bare, &entry(""), "inclusionPromise");
    theirs_by(&root, NO_SCT, &bare).unwrap();
    assert_eq!(ours_by(&root, &bare).unwrap(), signer);
    // Envelopes as the first of these logs took them; cosign knows them no more.
    let older = second.bundle(
        &signed,
        &envelope_entry_of(&signed),
        &timestamp_authority::Wish::right(),
    );
    assert_eq!(ours_by(&root, &older).unwrap(), signer);
    // By an authority that says so in each way that it may.
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
        assert_eq!(theirs_by(root, NO_SCT, &bundle).is_ok(), holds);
        assert_eq!(ours_by(root, &bundle).is_ok(), holds);
    }
    // A second one that nobody knows.
    let wish = timestamp_authority::Wish::right();
    let stranger = Second::new().authority.stamp(&wish, &signed.signature);
    let ours = second.authority.stamp(&wish, &signed.signature);
    let both = stamped(&good, &[stranger, ours]);
    theirs_by(&root, NO_SCT, &both).unwrap();
    assert_eq!(ours_by(&root, &both).unwrap(), signer);
    // Granted with changes, and to the fraction of a second, as RFC 3161 has it and cosign does not.
    let wish = timestamp_authority::Wish {
        fraction: ".123456",
        status: 1,
        ..timestamp_authority::Wish::right()
    };
    let bundle = second.bundle(&signed, &entry_of(&signed), &wish);
    assert_eq!(ours_by(&root, &bundle).unwrap(), signer);
}

/// Answers of `openssl ts`, which makes them as of now.
#[test]
fn what_openssl_stamped_is_taken_whatever_the_key_and_the_hash() {
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
            ours_by(&root, &bundle).unwrap_or_else(|told| panic!("{key:?} {hash}: {told}"));
            let other = second.authority.answer(hash, more, b"another signature");
            let told = ours_by(&root, &stamped(&bare, &[other])).unwrap_err();
            assert!(told.contains("is of another signature"), "{told}");
        }
    }
}

/// Beside a promise a timestamp is one word more, where it is of somebody who is trusted.
#[test]
fn a_timestamp_beside_a_promise_counts_where_its_authority_is_trusted() {
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
    let stranger = Second::new();
    let in_time = timestamp_authority::Wish::right();
    let beside = |authority: &TimestampAuthority, wish| {
        let bundle = stamped(&bundle, &[authority.stamp(wish, &signature)]);
        ours_by(&root, &bundle)
    };
    beside(&second.authority, &in_time).unwrap();
    beside(&stranger.authority, &late).unwrap();
    // Here cosign looks at the promise alone; Sigstore's tests of its clients want it refused.
    let told = beside(&second.authority, &late).unwrap_err();
    assert!(
        told.contains("the signature was made at 2024-01-01T00:10:01Z"),
        "{told}"
    );
    let answer = json!({"rfc3161Timestamps": [{"signedTimestamp": "MAA="}]});
    let mut unreadable = bundle;
    unreadable["verificationMaterial"]["timestampVerificationData"] = answer;
    ours_by(&root, &unreadable).unwrap();
}
