//! Forged bundles: kubexm refuses what the real cosign refuses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_types::Digest;
use serde_json::{Value, json};

use super::authority::{BEGIN, Sigstore, Wish};
use super::bundled::Bundled;
use super::bundles::{BUNDLE, ENTRY, cosign_verify, entry, kubexm_verify, with, without};
use super::image;

/// Both refuse every bundle but the valid one, kubexm with the reason.
#[test]
fn forged_bundles_are_refused_like_by_cosign() {
    let _filters = super::filters();
    let sigstore = Sigstore::new();
    let (right, how) = (Wish::right(image()), Bundled::default());
    let other = Digest::of(b"another image");
    let good = sigstore.bundle(&right, &how);
    let twin = sigstore.bundle(&right, &how);
    let at = |path: &str| good.pointer(path).unwrap().clone();
    let of_twin = |path: &str| with(&good, path, twin.pointer(path).unwrap().clone());
    let body = STANDARD
        .decode(at(&entry("/canonicalizedBody")).as_str().unwrap())
        .unwrap();
    let proof = entry("/inclusionProof");
    let checkpoint = entry("/inclusionProof/checkpoint/envelope");
    let note = at(&checkpoint).as_str().unwrap().to_owned();
    let of_other_log = Sigstore::new().proof_of(&body);
    let wishes: Vec<(Value, &str)> = vec![
        (
            sigstore.bundle(
                &Wish {
                    image: other,
                    ..right.clone()
                },
                &how,
            ),
            "it is a signature of sha256:",
        ),
        (
            sigstore.bundle(
                &Wish {
                    identity: "other@elsewhere.example",
                    ..right.clone()
                },
                &how,
            ),
            "it is by other@elsewhere.example",
        ),
        (
            sigstore.bundle(
                &Wish {
                    issuer: "https://evil.example",
                    ..right.clone()
                },
                &how,
            ),
            "(https://evil.example)",
        ),
        (
            sigstore.bundle(
                &Wish {
                    logged_at: BEGIN + 601,
                    ..right.clone()
                },
                &how,
            ),
            "but the signature was made at 2024-01-01T00:10:01Z",
        ),
        (
            sigstore.bundle(
                &Wish {
                    logged: Some(b"another".to_vec()),
                    ..right.clone()
                },
                &how,
            ),
            "is about another signature",
        ),
        (
            sigstore.bundle(
                &Wish {
                    logged_other: true,
                    ..right.clone()
                },
                &how,
            ),
            "is about another signature",
        ),
        (
            sigstore.bundle(
                &Wish {
                    signed: Some(b"{}".to_vec()),
                    ..right.clone()
                },
                &how,
            ),
            "its signature is of other content",
        ),
        (
            sigstore.bundle(
                &right,
                &Bundled {
                    logged_as_message: true,
                    ..Bundled::default()
                },
            ),
            "an unknown kind",
        ),
        (
            sigstore.bundle(
                &right,
                &Bundled {
                    envelope_type: "text/plain",
                    ..Bundled::default()
                },
            ),
            "an envelope with a 'text/plain'",
        ),
    ];
    let changes = vec![
        (
            with(&good, "/dsseEnvelope/payloadType", json!("text/plain")),
            "envelope with a",
        ),
        (
            of_twin("/dsseEnvelope/signatures"),
            "is about another signature",
        ),
        (
            of_twin("/verificationMaterial/certificate"),
            "is about another signature",
        ),
        (of_twin(ENTRY), "is about another signature"),
        (of_twin(&proof), "its entry is not in the log"),
        (
            of_twin(&entry("/canonicalizedBody")),
            "not signed by that log",
        ),
        (
            with(&good, &proof, sigstore.proof_of_another(&body)),
            "its entry is not in the log",
        ),
        (with(&good, &proof, of_other_log), "not signed by that log"),
        (
            with(&good, &checkpoint, json!(note.replace("\n13\n", "\n14\n"))),
            "not signed by",
        ),
        (
            with(
                &good,
                &checkpoint,
                json!(note.replace("log.example - ", "x - ")),
            ),
            "not signed by",
        ),
        (with(&good, &checkpoint, json!("")), "cannot be read"),
        (
            with(&good, &entry("/inclusionProof/logIndex"), json!("6")),
            "not in the log",
        ),
        (
            with(&good, &entry("/inclusionProof/treeSize"), json!("40")),
            "does not match the inclusion proof",
        ),
        (
            with(
                &good,
                &entry("/inclusionProof/rootHash"),
                json!(STANDARD.encode([7; 32])),
            ),
            "does not match the inclusion proof",
        ),
        (
            with(
                &good,
                &entry("/integratedTime"),
                json!((BEGIN + 61).to_string()),
            ),
            "not signed by",
        ),
        (
            with(&good, &entry("/logIndex"), json!("98")),
            "not signed by that log",
        ),
        (
            with(&good, &entry("/logIndex"), json!("-1")),
            "a negative index",
        ),
        (
            with(
                &good,
                &entry("/logId/keyId"),
                json!(STANDARD.encode([7; 32])),
            ),
            "an unknown transparency log with the ID 0707",
        ),
        (
            without(&good, ENTRY, "inclusionProof"),
            "without an inclusion proof",
        ),
        (
            without(&good, ENTRY, "inclusionPromise"),
            "its log entry has no time, and it has no timestamp",
        ),
        (
            without(&good, ENTRY, "integratedTime"),
            "an inclusion promise but without a time",
        ),
        (
            with(&good, "/verificationMaterial/tlogEntries", json!([])),
            "no transparency log entry",
        ),
        (
            with(&good, "/mediaType", json!(BUNDLE.replace("0.3", "0.4"))),
            "up to version 0.3",
        ),
        (
            with(
                &good,
                "/dsseEnvelope/signatures",
                json!([
                    at("/dsseEnvelope/signatures/0"),
                    at("/dsseEnvelope/signatures/0")
                ]),
            ),
            "not have exactly one signature",
        ),
        (
            without(&good, "/verificationMaterial", "certificate"),
            "exactly one kind of verification material",
        ),
        (
            without(&good, "", "dsseEnvelope"),
            "exactly one kind of signed content",
        ),
    ];
    for (number, (bundle, reason)) in wishes.iter().chain(&changes).enumerate() {
        let refusal = kubexm_verify(&sigstore, bundle).unwrap_err();
        assert!(
            refusal.contains(reason),
            "{number}: {refusal}, not {reason}"
        );
        assert!(!refusal.contains(char::is_control), "{number}: {refusal:?}");
        let refusal = cosign_verify(&sigstore, bundle);
        assert!(refusal.is_err(), "{number}: cosign takes it, {reason}");
    }
    kubexm_verify(&sigstore, &good).unwrap();
    let refusal = kubexm_verify(&Sigstore::new(), &good).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: its entry is in an unknown transparency log with the ID [digest]");
    // cosign accepts every statement about an image as its signature; kubexm does not.
    let said = Bundled {
        predicate: "https://slsa.dev/provenance/v1",
        ..Bundled::default()
    };
    let refusal = kubexm_verify(&sigstore, &sigstore.bundle(&right, &said)).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: it is an attestation of type 'https://slsa.dev/provenance/v1', not a signature");
}
