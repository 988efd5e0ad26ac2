//! Signatures as documents of their own, with an identity's certificate: what the real cosign says of
//! each, kubexm says, too.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm::sigstore::bundle::{self, Image};
use kubexm::sigstore::{Signer, Trust};
use kubexm::spec::Digest;
use serde_json::{Value, json};

use super::authority::{BEGIN, Bundled, IDENTITY, ISSUER, Sigstore, Wish};
use super::site::cosign;
use super::{image, root, wanted};

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
/// What stands for the image's manifest; nobody looks into it.
const MANIFEST: &[u8] = b"an image";

fn ours(sigstore: &Sigstore, bundle: &Value) -> Result<Signer, String> {
    let (identity, root, digest) = (wanted(), root(sigstore), image());
    let image = Image {
        digest: &digest,
        manifest: MANIFEST,
    };
    let bundle = bundle::read(bundle.to_string().as_bytes())?;
    let trust = Trust::Identity(&identity, &root);
    bundle.verify(image, trust).map_err(|e| e.to_string())
}

/// The real cosign, which finds the bundle in a layout and asks nobody.
fn theirs(sigstore: &Sigstore, bundle: &Value) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.json");
    std::fs::write(&root, sigstore.trusted_root().to_string()).unwrap();
    let layout = folder.path().join("layout");
    write_layout(&layout, bundle);
    let (root, layout) = (root.display().to_string(), layout.display().to_string());
    let identity = format!("--certificate-identity={IDENTITY}");
    let issuer = format!("--certificate-oidc-issuer={ISSUER}");
    let whom = ["--trusted-root", &root, &identity, &issuer];
    let options = ["verify", "--insecure-ignore-sct", "--local-image"];
    cosign(folder.path(), &[&options[..], &whom, &[&layout]].concat())
}

fn write_layout(folder: &Path, bundle: &Value) {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let put = |kind: &str, content: &[u8]| {
        let digest = Digest::of(content);
        std::fs::write(blobs.join(digest.hex()), content).unwrap();
        json!({"mediaType": kind, "digest": digest, "size": content.len()})
    };
    let mut image = put(OCI, MANIFEST);
    let referrer = json!({
        "schemaVersion": 2, "mediaType": OCI, "artifactType": BUNDLE, "subject": image,
        "config": put("application/vnd.oci.empty.v1+json", b"{}"),
        "layers": [put(BUNDLE, bundle.to_string().as_bytes())],
    });
    put(OCI, referrer.to_string().as_bytes());
    image["annotations"] = json!({"kind": "dev.cosignproject.cosign/image"});
    let index = json!({"schemaVersion": 2, "manifests": [image]});
    std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
    let version = r#"{"imageLayoutVersion":"1.0.0"}"#;
    std::fs::write(folder.join("oci-layout"), version).unwrap();
}

const ENTRY: &str = "/verificationMaterial/tlogEntries/0";

fn entry(rest: &str) -> String {
    format!("{ENTRY}{rest}")
}

/// The same with something else at one place.
fn with(bundle: &Value, path: &str, value: Value) -> Value {
    let mut changed = bundle.clone();
    *changed
        .pointer_mut(path)
        .unwrap_or_else(|| panic!("{path}")) = value;
    changed
}

fn without(bundle: &Value, path: &str, key: &str) -> Value {
    let mut changed = bundle.clone();
    let object = changed.pointer_mut(path).unwrap().as_object_mut().unwrap();
    object.remove(key).unwrap_or_else(|| panic!("{key}"));
    changed
}

#[test]
fn what_an_identity_signed_is_taken_as_cosign_takes_it() {
    let sigstore = Sigstore::new();
    let good = sigstore.bundle(&Wish::right(image()), &Bundled::default());
    let signer = Signer::Identity {
        subject: IDENTITY.to_owned(),
        issuer: ISSUER.to_owned(),
        trusted_root: root(&sigstore).own_digest(),
    };
    theirs(&sigstore, &good).unwrap();
    assert_eq!(ours(&sigstore, &good).unwrap(), signer);
    // Numbers where others write text, and more that nobody asks for.
    let other = with(&good, &entry("/logIndex"), json!(99));
    let other = with(&other, &entry("/integratedTime"), json!(BEGIN + 60));
    theirs(&sigstore, &other).unwrap();
    assert_eq!(ours(&sigstore, &other).unwrap(), signer);
    // A bare manifest, which cosign signs as any other file.
    let message = sigstore.message_bundle(&Wish::right(image()), MANIFEST);
    verify_blob(&sigstore, &message).unwrap();
    assert_eq!(ours(&sigstore, &message).unwrap(), signer);
    // The older versions, as they came before.
    let chain = json!({"certificates": [good["verificationMaterial"]["certificate"]]});
    let mut older = without(&good, "/verificationMaterial", "certificate");
    older["verificationMaterial"]["x509CertificateChain"] = chain;
    for version in ["0.1", "0.2"] {
        older["mediaType"] = json!(format!(
            "application/vnd.dev.sigstore.bundle+json;version={version}"
        ));
        assert_eq!(ours(&sigstore, &older).unwrap(), signer);
    }
    let without_proof = without(&older, ENTRY, "inclusionProof");
    assert!(
        ours(&sigstore, &without_proof)
            .unwrap_err()
            .contains("without a proof")
    );
    older["mediaType"] = json!("application/vnd.dev.sigstore.bundle+json;version=0.1");
    ours(&sigstore, &without(&older, ENTRY, "inclusionProof")).unwrap();
}

fn verify_blob(sigstore: &Sigstore, bundle: &Value) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("root.json", sigstore.trusted_root().to_string().as_bytes()),
        ("bundle.json", bundle.to_string().as_bytes()),
        ("manifest.json", MANIFEST),
    ] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let identity = format!("--certificate-identity={IDENTITY}");
    let issuer = format!("--certificate-oidc-issuer={ISSUER}");
    cosign(
        folder.path(),
        &[
            "verify-blob",
            "--insecure-ignore-sct",
            "--trusted-root=root.json",
            "--bundle=bundle.json",
            &identity,
            &issuer,
            "manifest.json",
        ],
    )
}

/// Every one but the right one is refused by both, here for a reason that says what it is.
#[test]
fn what_anybody_could_have_made_is_refused_as_cosign_refuses_it() {
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
    let strange = Sigstore::new().proof_of(&body);
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
                    identity: "stranger@elsewhere.example",
                    ..right.clone()
                },
                &how,
            ),
            "it is by stranger@elsewhere.example",
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
            "and the signature is of 2024-01-01T00:10:01Z",
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
            "its signature is of something else",
        ),
        (
            sigstore.bundle(
                &right,
                &Bundled {
                    logged_as_message: true,
                    ..Bundled::default()
                },
            ),
            "of a kind that is not known",
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
        (with(&good, &proof, strange), "not signed by that log"),
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
            "another state of the log",
        ),
        (
            with(
                &good,
                &entry("/inclusionProof/rootHash"),
                json!(STANDARD.encode([7; 32])),
            ),
            "another state of the log",
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
            with(
                &good,
                &entry("/logId/keyId"),
                json!(STANDARD.encode([7; 32])),
            ),
            "a log that is not trusted",
        ),
        (without(&good, ENTRY, "inclusionProof"), "without a proof"),
        (
            without(&good, ENTRY, "inclusionPromise"),
            "no timestamps in their stead",
        ),
        (
            without(&good, ENTRY, "integratedTime"),
            "no timestamps in their stead",
        ),
        (
            with(&good, "/verificationMaterial/tlogEntries", json!([])),
            "no entry of a log",
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
            "not signed just once",
        ),
        (
            without(&good, "/verificationMaterial", "certificate"),
            "in one way who signed",
        ),
        (
            without(&good, "", "dsseEnvelope"),
            "in one way what is signed",
        ),
    ];
    for (number, (bundle, reason)) in wishes.iter().chain(&changes).enumerate() {
        let told = ours(&sigstore, bundle).unwrap_err();
        assert!(told.contains(reason), "{number}: {told}, not {reason}");
        assert!(!told.contains(char::is_control), "{number}: {told:?}");
        let told = theirs(&sigstore, bundle);
        assert!(told.is_err(), "{number}: cosign takes it, {reason}");
    }
    ours(&sigstore, &good).unwrap();
    let told = ours(&Sigstore::new(), &good).unwrap_err();
    assert!(told.contains("a log that is not trusted"), "{told}");
    // Cosign takes whatever is said of an image for a signature of it; kubexm does not.
    let said = Bundled {
        predicate: "https://slsa.dev/provenance/v1",
        ..Bundled::default()
    };
    let told = ours(&sigstore, &sigstore.bundle(&right, &said)).unwrap_err();
    assert!(
        told.contains("'https://slsa.dev/provenance/v1' of an image, which is no"),
        "{told}"
    );
}

#[test]
fn a_bare_manifest_is_held_against_what_was_signed() {
    let sigstore = Sigstore::new();
    let right = Wish::right(image());
    let other = Digest::of(b"another image");
    for (wish, reason) in [
        (
            Wish {
                image: other,
                ..right.clone()
            },
            "it is a signature of sha256:",
        ),
        (
            Wish {
                signed: Some(b"another image".to_vec()),
                ..right.clone()
            },
            "something else",
        ),
        (
            Wish {
                logged: Some(b"another image".to_vec()),
                ..right.clone()
            },
            "another signature",
        ),
    ] {
        let bundle = sigstore.message_bundle(&wish, MANIFEST);
        let told = ours(&sigstore, &bundle).unwrap_err();
        assert!(told.contains(reason), "{told}");
        assert!(verify_blob(&sigstore, &bundle).is_err(), "{reason}");
    }
}

/// Whatever byte is another one: an answer, and no other signer.
#[test]
fn a_spoiled_bundle_is_refused_or_says_the_same() {
    let sigstore = Sigstore::new();
    let good = sigstore.bundle(&Wish::right(image()), &Bundled::default());
    let signer = ours(&sigstore, &good).unwrap();
    let (identity, root, digest) = (wanted(), root(&sigstore), image());
    let good = good.to_string().into_bytes();
    for at in (0..good.len()).step_by(41) {
        for change in [1, 0x20, 0x80] {
            let mut spoiled = good.clone();
            spoiled[at] ^= change;
            let image = Image {
                digest: &digest,
                manifest: MANIFEST,
            };
            let answer = bundle::read(&spoiled).and_then(|bundle| {
                let answer = bundle.verify(image, Trust::Identity(&identity, &root));
                answer.map_err(|reason| reason.to_string())
            });
            match answer {
                Ok(by) => assert_eq!(by, signer, "{at}"),
                Err(reason) => assert!(!reason.contains(char::is_control), "{at}: {reason:?}"),
            }
        }
    }
}
