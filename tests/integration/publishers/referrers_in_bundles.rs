//! Referrers in bundles: what the lock says about them is verified again.

use std::path::Path;

use kubexm_bundle::lock::LockedSignature;
use kubexm_bundle::{Bundle, Lock};
use kubexm_sigstore::{Signer, referrer};
use kubexm_types::Digest;
use serde_json::{Value, json};

use super::authority::{IDENTITY, ISSUER, Sigstore, Wish};
use super::bundled::Bundled;
use super::in_bundles::{Case, OCI, descriptor, locked, signature};
use super::second_rekor::{Second, stamped};
use crate::example::InMemory;

/// Returns the record that a build writes into the lock for a bundle that is attached to the image.
fn attached(
    sigstore: &Sigstore,
    blobs: &mut InMemory,
    image: Digest,
    bundle: &Value,
) -> LockedSignature {
    let kind = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let bundle = descriptor(blobs, kind, bundle.to_string().as_bytes());
    let config = descriptor(blobs, "application/vnd.oci.empty.v1+json", b"{}");
    let manifest = json!({
        "schemaVersion": 2, "mediaType": format!("{OCI}.manifest.v1+json"), "artifactType": kind,
        "config": config, "layers": [bundle], "subject": {"digest": image},
    });
    let manifest = manifest.to_string().into_bytes();
    let list = referrer::list_of(&manifest);
    LockedSignature {
        manifest: descriptor(blobs, &format!("{OCI}.manifest.v1+json"), &manifest),
        blobs: vec![config, bundle],
        referrers: Some(descriptor(blobs, &format!("{OCI}.index.v1+json"), &list)),
        ..locked(sigstore, blobs, image)
    }
}

#[test]
fn referrer_claims_of_a_lock_are_verified_again() {
    let sigstore = Sigstore::new();
    let mut case = Case::new();
    std::fs::write(&case.root, sigstore.trusted_root().to_string()).unwrap();
    case.lock.files.clear();
    let top = case.lock.images[1].manifest.digest;
    let other = case.lock.images[0].manifest.digest;
    let mut attach = |image: Digest, of: Digest| {
        let bundle = sigstore.bundle(&Wish::right(of), &Bundled::default());
        attached(&sigstore, &mut case.blobs, image, &bundle)
    };
    let good = attach(top, top);
    let elsewhere = attach(other, other);
    let of_other = attach(top, other);
    case.lock.images[1].signature = Some(good.clone());
    let bundle = case.write("b.tar.zst", &case.lock);
    let (code, said) = case.verify(&bundle);
    let signed = format!("1 images: signed by {IDENTITY} by {ISSUER}");
    assert!(code == Some(0) && said.contains(&signed), "{said}");
    // It names its image itself, and has no name.
    let opened = Bundle::open(Path::new(&bundle)).unwrap();
    let index: Value = serde_json::from_slice(&opened.documents().index).unwrap();
    let digest = good.manifest.digest.to_string();
    let mut entries = index["manifests"].as_array().unwrap().iter();
    let entry = entries.find(|e| e["digest"] == digest.as_str()).unwrap();
    assert!(entry["annotations"].is_null(), "{entry}");

    let lies: [(LockedSignature, &str); 5] = [
        (elsewhere.clone(), "the signature is of sha256:"),
        (of_other, "it is a signature of sha256:"),
        (
            LockedSignature {
                referrers: elsewhere.referrers,
                ..good.clone()
            },
            "the list of referrers does not match the signature",
        ),
        (
            LockedSignature {
                blobs: good.blobs[..1].to_vec(),
                ..good.clone()
            },
            "the lock does not name the Sigstore bundle",
        ),
        (
            LockedSignature {
                referrers: None,
                ..good.clone()
            },
            "does not carry a cosign signature",
        ),
    ];
    for (lie, reason) in lies {
        let (code, said) = case.verify_changed(|lock| *signature(lock) = lie);
        assert!(code == Some(3) && said.contains(reason), "{reason}: {said}");
    }
    let (code, said) = case.verify_changed(|lock| {
        let Signer::Identity { issuer, .. } = &mut signature(lock).by else {
            panic!("an identity");
        };
        "https://evil.example".clone_into(issuer);
    });
    assert!(
        code == Some(3) && said.contains("it is by robot@"),
        "{said}"
    );
    let mut huge = case.lock.clone();
    signature(&mut huge).referrers.as_mut().unwrap().size = 1 << 40;
    let text = serde_saphyr::to_string(&huge).unwrap();
    assert!(Lock::from_yaml(&text).unwrap_err().text.contains("invalid"));
}

/// A log without timestamps, with a timestamp beside its entry.
#[test]
fn timestamped_signature_in_a_bundle_is_verified_again() {
    let second = Second::new();
    let mut case = Case::new();
    let root = second.trusted_root();
    std::fs::write(&case.root, root.to_string()).unwrap();
    case.lock.files.clear();
    let top = case.lock.images[1].manifest.digest;
    let signed = second
        .sigstore
        .sign_statement(&Wish::right(top), &Bundled::default());
    let good = second.right(&signed);
    let mut carried = |bundle: &Value| {
        let mut signature = attached(&second.sigstore, &mut case.blobs, top, bundle);
        signature.by = Signer::Identity {
            subject: IDENTITY.to_owned(),
            issuer: ISSUER.to_owned(),
            trusted_root: Some(Digest::of(root.to_string().as_bytes())),
        };
        signature
    };
    let without_timestamp = carried(&stamped(&good, &[]));
    case.lock.images[1].signature = Some(carried(&good));
    let (code, said) = case.verify(&case.write("b.tar.zst", &case.lock));
    let by = format!("1 images: signed by {IDENTITY} by {ISSUER}");
    assert!(code == Some(0) && said.contains(&by), "{said}");
    let (code, said) = case.verify_changed(|lock| *signature(lock) = without_timestamp);
    let reason = "it has no timestamp";
    assert!(code == Some(3) && said.contains(reason), "{said}");
}
