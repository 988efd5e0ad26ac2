//! Documents of a publisher's signature: manifest, payload, certificate, log entry, trusted roots, lists of
//! referrers, referrers, and bundles with timestamps. No input of a fuzzer is a valid signature.
#![no_main]
use kubexm_sigstore::bundle;
use kubexm_sigstore::bundle::{Bundle, Image};
use kubexm_sigstore::{SignatureManifest, Trust, TrustedRoot, Unverified, document, referrer, verify};
use kubexm_types::signature_policy::Identity;
use kubexm_types::{Digest, VerifyingKey};
use libfuzzer_sys::fuzz_target;

/// The key of the public log, which signs no images.
const KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2G2Y+2tabdTV5BcGiBIx0a9fAFwrkBbmLSGtks4L3qX6yYY0zufBnhC8Ur/iy55GhWP/9A/bY2LhC30M9+RYtw==";

fuzz_target!(|data: &[u8]| {
    let _ = TrustedRoot::parse(data);
    let _ = document::image_of(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = text.parse::<VerifyingKey>();
    }
    let _ = referrer::listed(data);
    let _ = referrer::read(data);
    // An added referrer is in the list.
    if let Ok(Some(more)) = referrer::with_one_more(data, b"{}") {
        assert_eq!(referrer::with_one_more(&more, b"{}"), Ok(None));
    }
    if let Ok(bundle) = bundle::read(data) {
        verify_bundle(&bundle);
    }
    let Ok(mut manifest) = document::read(data) else {
        return;
    };
    let image = Digest::of(b"an image");
    let payload = format!(
        r#"{{"critical":{{"type":"cosign container image signature","image":{{"docker-manifest-digest":"{image}"}}}}}}"#
    );
    // With the right digest, so that the rest of the manifest is verified as well.
    for claim in &mut manifest.claims {
        claim.payload.digest = Digest::of(payload.as_bytes());
    }
    verify_manifest(&manifest, payload.as_bytes(), &image);
});

fn verify_manifest(manifest: &SignatureManifest, payload: &[u8], image: &Digest) {
    assert_refused(|trust| verify(manifest, &|_| Ok(payload.to_vec()), image, trust).map(|_| ()));
}

fn verify_bundle(bundle: &Bundle) {
    // The image of tests/fuzz/bundle.json and timestamped.json.
    let digest = Digest::of(b"an image");
    let image = Image { digest: &digest, manifest: b"an image" };
    let _ = bundle.is_signature();
    assert_refused(|trust| bundle.verify(image, trust).map(|_| ()));
}

fn assert_refused(verified: impl Fn(Trust<'_>) -> Result<(), Unverified>) {
    let key: VerifyingKey = KEY.parse().expect("a key");
    let root = TrustedRoot::public_instance().expect("roots");
    let identity = Identity {
        identity: "a@b.example".to_owned(),
        issuer: "https://c.example".to_owned(),
    };
    for trust in [Trust::Keys(&[key]), Trust::Identity(&identity, &root)] {
        let reason = verified(trust).expect_err("this has no signature").to_string();
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
}
