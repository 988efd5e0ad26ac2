//! Certificates with and without a certificate transparency log.

use kubexm_sigstore::{Trust, TrustedRoot};

use super::authority::{BEGIN, Seen, Sigstore, Wish};
use super::bundled::Bundled;
use super::bundles::{MANIFEST, cosign_verify_by, kubexm_verify, kubexm_verify_by};
use super::{claimed, image, verify, verify_file, wanted};

/// A certificate that no log has is refused if the trusted root names a certificate transparency log.
#[test]
fn certificate_needs_an_sct_if_the_trusted_root_names_a_log() {
    let _filters = super::filters();
    let sigstore = Sigstore::new();
    let root = sigstore.transparent_root();
    let made = |seen: Option<Seen>| {
        let wish = Wish {
            seen,
            ..Wish::right(image())
        };
        (sigstore.bundle(&wish, &Bundled::default()), wish)
    };
    let (good, wish) = made(Some(Seen::right()));
    cosign_verify_by(&root, &[], &good).unwrap();
    kubexm_verify_by(&root, &good).unwrap();
    let long_ago = BEGIN - 300 * 86_400;
    for seen in [
        None,
        Some(Seen {
            another: true,
            ..Seen::right()
        }),
        Some(Seen {
            at: long_ago,
            ..Seen::right()
        }),
    ] {
        let (bad, _) = made(seen);
        let refusal = kubexm_verify_by(&root, &bad).unwrap_err();
        insta::allow_duplicates!(
            insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: its certificate has no valid SCT of a trusted certificate transparency log; do not trust it")
        );
        assert!(cosign_verify_by(&root, &[], &bad).is_err());
        kubexm_verify(&sigstore, &bad).unwrap();
    }
    let (bad, _) = made(Some(Seen {
        by_unknown_log: true,
        ..Seen::right()
    }));
    let refusal = kubexm_verify_by(&root, &bad).unwrap_err();
    insta::assert_snapshot!(refusal, @"cannot verify the signature of sha256:[digest]: an unknown transparency log recorded its certificate, and no known one did");
    assert!(cosign_verify_by(&root, &[], &bad).is_err());
    // The same in the older format, and beside files.
    let parsed = TrustedRoot::parse(root.to_string().as_bytes()).unwrap();
    let identity = wanted();
    let trust = Trust::Identity(&identity, &parsed);
    for (wish, holds) in [(wish, true), (Wish::right(image()), false)] {
        let (blobs, manifest) = claimed(&sigstore, &wish);
        let verified = verify(&blobs, manifest.to_string().as_bytes(), trust);
        assert_eq!(verified.is_ok(), holds, "{verified:?}");
        let (signature, certificate) = sigstore.beside(MANIFEST, &wish);
        let (signature, certificate) = (signature.as_bytes(), certificate.as_bytes());
        let verified = verify_file(MANIFEST, signature, Some(certificate), trust);
        assert_eq!(verified.is_ok(), holds, "{verified:?}");
    }
}
