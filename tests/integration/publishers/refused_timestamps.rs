//! Forged entries of a log without timestamps, and forged timestamps: kubexm refuses what the real cosign
//! refuses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::authority::{BEGIN, Wish};
use super::bundled::{Bundled, Signed};
use super::bundles::{cosign_verify_by, entry, kubexm_verify_by, with, without};
use super::log::{Tree, note_id};
use super::second_rekor::{LOG, Second, entry_of, envelope_entry_of, stamped};
use super::timestamp_authority::{DATA, Made, SIGNS, TimestampAuthority, Wish as Stamp};
use super::{decoded, image};

const NO_SCT: &[&str] = &["--insecure-ignore-sct"];
const NO_TIME: &str = "its log entry has no time, and its timestamp ";

/// Both refuse each bundle, verified with its trusted root, kubexm with the reason.
fn all_refused(cases: &[(Value, Value, &str)]) {
    for (number, (root, bundle, reason)) in cases.iter().enumerate() {
        let refusal = kubexm_verify_by(root, bundle).expect_err(reason);
        assert!(
            refusal.contains(reason),
            "{number}: {refusal}, not {reason}"
        );
        assert!(!refusal.contains(char::is_control), "{number}: {refusal:?}");
        let refusal = cosign_verify_by(root, NO_SCT, bundle);
        assert!(refusal.is_err(), "{number}: cosign takes it, {reason}");
    }
}

fn signed(second: &Second, wish: &Wish) -> Signed {
    second.sigstore.sign_statement(wish, &Bundled::default())
}

#[test]
fn forged_timestamps_are_refused_like_by_cosign() {
    let _filters = super::filters();
    let second = Second::new();
    let root = second.trusted_root();
    let signed = signed(&second, &Wish::right(image()));
    let good = second.right(&signed);
    let right = Stamp::right();
    let with_stamp = |stamp: Vec<u8>| stamped(&good, &[stamp]);
    let stamp = |wish: &Stamp| second.authority.stamp(wish, &signed.signature);
    let at = |time: i64| {
        with_stamp(stamp(&Stamp {
            time,
            ..right.clone()
        }))
    };
    // A minute later, without a key of the authority.
    let mut later = stamp(&right);
    let time = later
        .windows(15)
        .position(|text| text == b"20240101000100Z");
    later[time.unwrap() + 11] = b'2';
    let by = |made: &Made| {
        let authority = TimestampAuthority::new(made);
        let root = with(&root, "/timestampAuthorities/0", authority.trusted(true));
        let bundle = with_stamp(authority.stamp(&right, &signed.signature));
        (root, bundle)
    };
    let other_signer = Made::right();
    let (_, of_other) = by(&other_signer);
    let (expired, of_expired) = by(&Made {
        until: BEGIN + 59,
        ..Made::right()
    });
    let (signs, of_signs) = by(&Made {
        usage: SIGNS,
        ..Made::right()
    });
    let (uncritical, of_uncritical) = by(&Made {
        is_critical: false,
        ..Made::right()
    });
    let period = "/timestampAuthorities/0/validFor";
    let over = json!({"start": "2023-06-01T00:00:00Z", "end": "2024-01-01T00:00:59Z"});
    let to_come = json!({"start": "2024-01-01T00:01:01Z"});
    let other = second.authority.stamp(&right, b"another signature");
    let twin = second.authority.stamp_by_twin(&right, &signed.signature);
    let data = Stamp {
        content: DATA,
        ..right.clone()
    };
    let refused = Stamp {
        status: 2,
        ..right.clone()
    };
    let nobody = without(&root, "", "timestampAuthorities");
    let no_stamp = stamped(&good, &[]);
    let cut = stamp(&right);
    let refusal = |what: &str| format!("{NO_TIME}{what}");
    let (another, changed, untrusted) = (
        refusal("is of another signature"),
        refusal("was changed"),
        refusal("is not from a trusted authority"),
    );
    let not_then = refusal("was made at 2024-01-01T00:01:00Z, when its authority was not trusted");
    let not_for = refusal("is signed with a certificate that is not for timestamps");
    let (unread, asked) = (refusal("cannot be read"), refusal("was refused by"));
    let early = "but the signature was made at 2023-12-31T23:59:59Z";
    let late = "but the signature was made at 2024-01-01T00:10:01Z";
    let root = || root.clone();
    all_refused(&[
        (root(), with_stamp(other), &another),
        (root(), with_stamp(later), &changed),
        (root(), of_other, &untrusted),
        (root(), with_stamp(twin), &untrusted),
        (nobody, good.clone(), &untrusted),
        (expired, of_expired, &not_then),
        (with(&root(), period, over), good.clone(), &not_then),
        (with(&root(), period, to_come), good.clone(), &not_then),
        (signs, of_signs, &not_for),
        (uncritical, of_uncritical, &not_for),
        (root(), with_stamp(stamp(&refused)), &asked),
        (root(), with_stamp(cut[..cut.len() - 1].to_vec()), &unread),
        (root(), with_stamp(Vec::new()), &unread),
        (root(), no_stamp, "and it has no timestamp"),
        (
            root(),
            stamped(&good, &vec![cut; 33]),
            "more than 32 timestamps",
        ),
        (root(), at(BEGIN - 1), early),
        (root(), at(BEGIN + 601), late),
    ]);
    kubexm_verify_by(&root(), &at(BEGIN)).unwrap();
    // cosign does not check which other kind of message it is.
    let refusal = kubexm_verify_by(&root(), &with_stamp(stamp(&data))).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: its log entry has no time, and its timestamp is a CMS message with other content");
    let long = with_stamp(vec![0x30; 20_000]);
    let refusal = kubexm_verify_by(&root(), &long).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: its log entry has no time, and its timestamp is larger than 16 KiB");
}

#[test]
fn entry_that_is_not_in_the_log_is_refused_like_by_cosign() {
    let _filters = super::filters();
    let second = Second::new();
    let root = second.trusted_root();
    let right = Wish::right(image());
    let signature = signed(&second, &right);
    let good = second.right(&signature);
    let body = decoded(good.pointer(&entry("/canonicalizedBody")).unwrap());
    let changed = |path: &str, value: Value| with(&good, &entry(path), value);
    let proof = |proof: Value| changed("/inclusionProof", proof);
    let tree = Tree::with(&body);
    let other_signer = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let checkpoint = |note: String| changed("/inclusionProof/checkpoint/envelope", json!(note));
    let note = tree.checkpoint_2(&second.log, LOG);
    // The statement of the log under another name of the log.
    let renamed = tree.checkpoint_2(&second.log, "log3.example");
    let relabelled = note.replace(&format!("\u{2014} {LOG} "), "\u{2014} log3.example ");
    let witnessed: Vec<&str> = note
        .lines()
        .filter(|line| !line.contains(&format!("\u{2014} {LOG}")))
        .collect();
    let log = |path: &str, value: Value| with(&root, path, value);
    let since = json!({"start": "2024-01-01T00:01:01Z"});
    let made = |wish: Wish| second.right(&signed(&second, &wish));
    let other = made(Wish {
        logged: Some(b"{}".to_vec()),
        ..right.clone()
    });
    let other_certificate = made(Wish {
        logged_other: true,
        ..right.clone()
    });
    let other_envelope = Wish {
        logged: Some(b"{}".to_vec()),
        ..right.clone()
    };
    let other_envelope = signed(&second, &other_envelope);
    let other_envelope = second.bundle(
        &other_envelope,
        &envelope_entry_of(&other_envelope),
        &Stamp::right(),
    );
    let mut newer = entry_of(&signature);
    newer["apiVersion"] = json!("0.0.3");
    let newer = second.bundle(&signature, &newer, &Stamp::right());
    let unsigned = "the checkpoint of its entry's log is not signed by that log";
    let about = "is about another signature";
    let root = || root.clone();
    all_refused(&[
        (
            root(),
            proof(tree.proof_2(1, &second.log, LOG)),
            "its entry is not in the log",
        ),
        (
            root(),
            proof(Tree::with(b"{}").proof_2(0, &second.log, LOG)),
            "its entry is not in the log",
        ),
        (root(), proof(tree.proof_2(0, &other_signer, LOG)), unsigned),
        (root(), checkpoint(renamed), unsigned),
        (root(), checkpoint(relabelled), unsigned),
        (root(), checkpoint(witnessed.join("\n")), unsigned),
        (
            root(),
            checkpoint(note.replace("\n13\n", "\n14\n")),
            unsigned,
        ),
        (
            root(),
            without(&good, &entry(""), "inclusionProof"),
            "without an inclusion proof",
        ),
        (
            root(),
            changed(
                "/logId/keyId",
                json!(STANDARD.encode(note_id("log3.example", &second.log).bytes())),
            ),
            "an unknown transparency log",
        ),
        (
            log("/tlogs", root()["tlogs"].as_array().unwrap()[..1].into()),
            good.clone(),
            "an unknown transparency log",
        ),
        (root(), other, about),
        (root(), other_certificate, about),
        (root(), other_envelope, about),
        (root(), newer, "has an unknown kind"),
    ]);
    // cosign requires no time for logs of this version.
    let refusal = kubexm_verify_by(&log("/tlogs/1/publicKey/validFor", since), &good).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: its entry of 2024-01-01T00:01:00Z is in a log that is not trusted for that time");
    kubexm_verify_by(&root(), &good).unwrap();
}

/// For every changed byte, verification ends, and the signer is never another one.
#[test]
fn damaged_timestamp_is_refused_or_has_the_same_meaning() {
    let second = Second::new();
    let root = second.trusted_root();
    let signed = signed(&second, &Wish::right(image()));
    let good = second.right(&signed);
    let signer = kubexm_verify_by(&root, &good).unwrap();
    let stamp = second.authority.stamp(&Stamp::right(), &signed.signature);
    let mut refused = 0;
    for at in 0..stamp.len() {
        for change in [1, 0x20, 0x80] {
            let mut damaged = stamp.clone();
            damaged[at] ^= change;
            match kubexm_verify_by(&root, &stamped(&good, &[damaged])) {
                Ok(by) => assert_eq!(by, signer, "{at}"),
                Err(reason) => {
                    assert!(!reason.contains(char::is_control), "{at}: {reason:?}");
                    refused += 1;
                }
            }
        }
    }
    // The other bytes are attached certificates that are not used.
    assert!(refused > stamp.len(), "{refused} of {}", stamp.len());
}
