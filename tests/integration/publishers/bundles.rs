//! Signatures in Sigstore bundles with the certificate of an identity: kubexm and the real cosign give the
//! same result.

use std::path::Path;

use kubexm_sigstore::bundle;
use kubexm_sigstore::{Signer, Trust, TrustedRoot, verify};
use kubexm_types::Digest;
use serde_json::{Value, json};

use super::authority::{BEGIN, IDENTITY, ISSUER, Sigstore, Wish};
use super::bundled::Bundled;
use super::site::cosign;
use super::{artifact, image, root, stated, wanted};

pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
/// Stands for the manifest of an image. No verifier reads it.
pub const MANIFEST: &[u8] = b"an image";

pub fn kubexm_verify(sigstore: &Sigstore, bundle: &Value) -> Result<Signer, String> {
    kubexm_verify_by(&sigstore.trusted_root(), bundle)
}

pub fn kubexm_verify_by(root: &Value, bundle: &Value) -> Result<Signer, String> {
    let root = TrustedRoot::parse(root.to_string().as_bytes()).unwrap();
    let (identity, digest) = (wanted(), image());
    let bundle = bundle::read(bundle.to_string().as_bytes())?;
    let trust = Trust::Identity(&identity, &root);
    verify(&bundle, artifact(&digest), trust).map_err(stated)
}

/// Runs the real cosign. Certificate transparency logs do not matter.
pub fn cosign_verify(sigstore: &Sigstore, bundle: &Value) -> Result<String, String> {
    cosign_verify_by(&sigstore.trusted_root(), &["--insecure-ignore-sct"], bundle)
}

/// Runs the real cosign on a bundle in a layout, without a network.
pub fn cosign_verify_by(root: &Value, more: &[&str], bundle: &Value) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("root.json");
    std::fs::write(&trusted, root.to_string()).unwrap();
    let layout = folder.path().join("layout");
    write_layout(&layout, bundle);
    let (root, layout) = (trusted.display().to_string(), layout.display().to_string());
    let identity = format!("--certificate-identity={IDENTITY}");
    let issuer = format!("--certificate-oidc-issuer={ISSUER}");
    let whom = ["--trusted-root", &root, &identity, &issuer];
    let options = ["verify", "--local-image"];
    let arguments = [&options[..], more, &whom, &[&layout]].concat();
    cosign(folder.path(), &arguments)
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

pub const ENTRY: &str = "/verificationMaterial/tlogEntries/0";

pub fn entry(rest: &str) -> String {
    format!("{ENTRY}{rest}")
}

/// Returns the document with another value at one place.
pub fn with(bundle: &Value, path: &str, value: Value) -> Value {
    let mut changed = bundle.clone();
    *changed
        .pointer_mut(path)
        .unwrap_or_else(|| panic!("{path}")) = value;
    changed
}

pub fn without(bundle: &Value, path: &str, key: &str) -> Value {
    let mut changed = bundle.clone();
    let object = changed.pointer_mut(path).unwrap().as_object_mut().unwrap();
    object.remove(key).unwrap_or_else(|| panic!("{key}"));
    changed
}

#[test]
fn signature_of_an_identity_is_accepted_like_by_cosign() {
    let sigstore = Sigstore::new();
    let good = sigstore.bundle(&Wish::right(image()), &Bundled::default());
    let signer = Signer::Identity {
        subject: IDENTITY.to_owned(),
        issuer: ISSUER.to_owned(),
        trusted_root: root(&sigstore).own_digest(),
    };
    cosign_verify(&sigstore, &good).unwrap();
    assert_eq!(kubexm_verify(&sigstore, &good).unwrap(), signer);
    // Numbers in place of texts, and unknown fields.
    let other = with(&good, &entry("/logIndex"), json!(99));
    let other = with(&other, &entry("/integratedTime"), json!(BEGIN + 60));
    cosign_verify(&sigstore, &other).unwrap();
    assert_eq!(kubexm_verify(&sigstore, &other).unwrap(), signer);
    // A bare manifest, which cosign signs like any other file.
    let message = sigstore.message_bundle(&Wish::right(image()), MANIFEST);
    verify_blob(&sigstore.trusted_root(), &message).unwrap();
    assert_eq!(kubexm_verify(&sigstore, &message).unwrap(), signer);
    // The older versions, unchanged.
    let chain = json!({"certificates": [good["verificationMaterial"]["certificate"]]});
    let mut older = without(&good, "/verificationMaterial", "certificate");
    older["verificationMaterial"]["x509CertificateChain"] = chain;
    for version in ["0.1", "0.2"] {
        older["mediaType"] = json!(format!(
            "application/vnd.dev.sigstore.bundle+json;version={version}"
        ));
        assert_eq!(kubexm_verify(&sigstore, &older).unwrap(), signer);
    }
    let without_proof = without(&older, ENTRY, "inclusionProof");
    assert!(
        kubexm_verify(&sigstore, &without_proof)
            .unwrap_err()
            .contains("without an inclusion proof")
    );
    let proof = entry("/inclusionProof");
    let refused = kubexm_verify(&sigstore, &without(&older, &proof, "checkpoint")).unwrap_err();
    assert!(refused.contains("without a checkpoint"), "{refused}");
    older["mediaType"] = json!("application/vnd.dev.sigstore.bundle+json;version=0.1");
    kubexm_verify(&sigstore, &without(&older, ENTRY, "inclusionProof")).unwrap();
    let no_checkpoint = without(&older, &proof, "checkpoint");
    kubexm_verify(&sigstore, &no_checkpoint).unwrap();
    let other = with(
        &no_checkpoint,
        &entry("/inclusionProof/logIndex"),
        json!("6"),
    );
    let refused = kubexm_verify(&sigstore, &other).unwrap_err();
    assert!(refused.contains("its entry is not in the log"), "{refused}");
    // A chain must not have the root.
    let root = sigstore.trusted_root();
    let chain = root.pointer("/certificateAuthorities/0/certChain/certificates");
    let root = chain
        .and_then(Value::as_array)
        .and_then(|chain| chain.last());
    let chain = &mut older["verificationMaterial"]["x509CertificateChain"]["certificates"];
    chain.as_array_mut().unwrap().push(root.unwrap().clone());
    let refused = kubexm_verify(&sigstore, &older).unwrap_err();
    assert!(refused.contains("a root certificate"), "{refused}");
}

pub fn verify_blob(root: &Value, bundle: &Value) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("root.json", root.to_string().as_bytes()),
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

#[test]
fn bare_manifest_is_compared_with_the_signed_bytes() {
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
            "other content",
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
        let root = sigstore.trusted_root();
        let refusal = kubexm_verify(&sigstore, &bundle).unwrap_err();
        assert!(refusal.contains(reason), "{refusal}");
        assert!(verify_blob(&root, &bundle).is_err(), "{reason}");
    }
}

/// For every changed byte, verification ends, and the signer is never another one.
#[test]
fn damaged_bundle_is_refused_or_has_the_same_meaning() {
    let sigstore = Sigstore::new();
    let good = sigstore.bundle(&Wish::right(image()), &Bundled::default());
    let signer = kubexm_verify(&sigstore, &good).unwrap();
    let (identity, root, digest) = (wanted(), root(&sigstore), image());
    let good = good.to_string().into_bytes();
    for at in (0..good.len()).step_by(41) {
        for change in [1, 0x20, 0x80] {
            let mut damaged = good.clone();
            damaged[at] ^= change;
            let answer = bundle::read(&damaged).and_then(|bundle| {
                let trust = Trust::Identity(&identity, &root);
                let answer = verify(&bundle, artifact(&digest), trust);
                answer.map_err(|reason| reason.to_string())
            });
            match answer {
                Ok(by) => assert_eq!(by, signer, "{at}"),
                Err(reason) => assert!(!reason.contains(char::is_control), "{at}: {reason:?}"),
            }
        }
    }
}
