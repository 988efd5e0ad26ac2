//! Publishers' signatures in all forms, with their conversion to bundles: signature manifests, payloads,
//! certificates, log entries, trusted roots, lists of referrers, referrers and bundles with timestamps, and
//! signatures of files. No input is a valid signature.
#![no_main]
use kubexm_sigstore::{
    Artifact, Signer, Trust, TrustedRoot, Unverified, bundle, document, file, referrer,
    simple_signing, verify, verify_any,
};
use kubexm_types::signature_policy::Identity;
use kubexm_types::{Digest, VerifyingKey};
use libfuzzer_sys::fuzz_target;

/// The key of the public log, which signs no images.
const KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2G2Y+2tabdTV5BcGiBIx0a9fAFwrkBbmLSGtks4L3qX6yYY0zufBnhC8Ur/iy55GhWP/9A/bY2LhC30M9+RYtw==";

fuzz_target!(|data: &[u8]| {
    let _ = TrustedRoot::parse(data);
    let _ = simple_signing::image_of(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = text.parse::<VerifyingKey>();
    }
    let _ = referrer::listed(data);
    let _ = referrer::read(data);
    // An added referrer is in the list.
    if let Ok(Some(more)) = referrer::with_one_more(data, b"{}") {
        assert_eq!(referrer::with_one_more(&more, b"{}"), Ok(None));
    }
    // The image of tests/fuzz/bundle.json and timestamped.json.
    let digest = Digest::of(b"an image");
    let image = Artifact::Image { digest: &digest, manifest: b"an image" };
    if let Ok(bundle) = bundle::read(data) {
        let _ = bundle.is_signature();
        for artifact in [image, Artifact::File(b"an image")] {
            refused(|trust| verify(&bundle, artifact, trust));
        }
    }
    // As the signature of a file, and as the certificate of one.
    for beside in [file::bundle(data, None), file::bundle(b"MEUC", Some(data))] {
        let Ok(bundle) = beside else { continue };
        refused(|trust| verify(&bundle, Artifact::File(b"a file"), trust));
    }
    let Ok(mut manifest) = document::read(data) else {
        return;
    };
    let payload = format!(
        r#"{{"critical":{{"type":"cosign container image signature","image":{{"docker-manifest-digest":"{digest}"}}}}}}"#
    );
    // With the right digest, so that the rest of the manifest is verified as well.
    for claim in &mut manifest.claims {
        claim.payload.digest = Digest::of(payload.as_bytes());
    }
    refused(|trust| verify_any(manifest.bundles(&|_| Ok(payload.clone().into_bytes())), image, trust));
});

fn refused(verified: impl Fn(Trust<'_>) -> Result<Signer, Unverified>) {
    let key: VerifyingKey = KEY.parse().expect("a key");
    let root = TrustedRoot::public_instance().expect("roots");
    let identity = Identity::new("a@b.example", "https://c.example");
    for trust in [Trust::Keys(&[key]), Trust::Identity(&identity, &root)] {
        let reason = verified(trust).expect_err("no key signed this").to_string();
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
}
