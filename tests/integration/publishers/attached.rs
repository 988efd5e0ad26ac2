//! Referrers that the real cosign attaches to images: kubexm accepts and transports them, and cosign finds
//! them.

use kubexm_sigstore::Signer;

use super::site::{SIGNED, Site, policy};
use crate::example::kubexm;

fn said(arguments: &[&str]) -> String {
    let (code, said) = kubexm(arguments);
    assert_eq!(code, Some(0), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn attached_cosign_signatures_are_accepted_and_cosign_finds_them_after_transport() {
    let site = Site::start().await;
    // Other statements about the image do not matter.
    site.attest("other", "team/signed:1");
    let images = site.resolve(&policy("ifPresent")).await.unwrap();
    assert!(images.iter().all(|image| image.signature.is_none()));
    site.attach("trusted", "team/signed:1");
    let images = site.resolve(&policy("ifPresent")).await.unwrap();
    let signature = images[0].signature.clone().unwrap();
    assert!(signature.referrers.is_some() && images[1].signature.is_none());
    let key = std::fs::read_to_string(site.folder.path().join("trusted.pub")).unwrap();
    assert_eq!(signature.by, Signer::Key(key.parse().unwrap()));

    let (bundle, lock) = site.bundle("b.tar.zst", images.clone());
    let refusal = said(&["bundle", "verify", &bundle]);
    assert!(
        refusal.contains(&format!("1 images: signed by {}", signature.by)),
        "{refusal}"
    );
    let refusal = said(&["bundle", "list", &bundle]);
    assert!(
        refusal.contains(&format!("signed by {}", signature.by)),
        "{refusal}"
    );

    // Through a registry of the site that has no referrers API.
    let cache = site.folder.path().join("push").display().to_string();
    let place = format!("oci://{}", site.place("site/bundles:1"));
    let push = ["bundle", "push", &bundle, &place, "--cache", &cache];
    assert!(said(&push).contains("signed   1 of them"));
    let digest = lock
        .image(&SIGNED.parse().unwrap())
        .unwrap()
        .manifest
        .digest;
    let pushed = site.place(&format!("site/bundles@{digest}"));
    site.verify("trusted", &pushed).unwrap();
    assert!(site.verify("other", &pushed).is_err());
    let back = site
        .folder
        .path()
        .join("back.tar.zst")
        .display()
        .to_string();
    let pulled = format!("{cache}-2");
    said(&[
        "bundle", "pull", &place, "-o", &back, "--level", "1", "--cache", &pulled,
    ]);
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&bundle).unwrap());

    // A third party attaches a referrer in the registry: another push keeps it in the list.
    site.attach("other", &format!("site/bundles@{digest}"));
    assert!(said(&push).contains("signed   1 of them"));
    site.verify("other", &pushed).unwrap();
    site.verify("trusted", &pushed).unwrap();

    // A push also keeps referrers that were attached before it.
    site.copy("team/signed:1", "site/others:other");
    let others = site.place(&format!("site/others@{digest}"));
    site.attach("other", &format!("site/others@{digest}"));
    assert!(site.verify("trusted", &others).is_err());
    let place = format!("oci://{}", site.place("site/others:1"));
    said(&["bundle", "push", &bundle, &place, "--cache", &cache]);
    site.verify("trusted", &others).unwrap();
    site.verify("other", &others).unwrap();

    // Through an OCI layout.
    let out = site.folder.path().join("layout").display().to_string();
    said(&[
        "bundle",
        "export",
        &bundle,
        "--oci-layout",
        &out,
        "--image",
        SIGNED,
    ]);
    site.verify_layout("trusted", &out).unwrap();
    assert!(site.verify_layout("other", &out).is_err());

    // The content of the lock is kept, whatever was attached later.
    site.attach("trusted", "team/signed:1");
    let again = site.resolve_again(&policy("ifPresent"), Some(&lock)).await;
    assert_eq!(again.unwrap(), images);
}

/// The registry of a cluster, as an install fills it.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_registry_lists_the_referrers_of_its_images() {
    let site = Site::start().await;
    site.attach("trusted", "team/signed:1");
    let images = site.resolve(&policy("ifPresent")).await.unwrap();
    let (_, lock) = site.bundle("b.tar.zst", images);
    site.is_served(&lock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn referrers_of_other_signers_are_not_signatures_of_the_publisher() {
    let _filters = super::filters();
    let site = Site::start().await;
    site.attach("other", "team/signed:1");
    for mode in ["require", "ifPresent"] {
        let refusal = site.resolve(&policy(mode)).await.unwrap_err().to_string();
        insta::allow_duplicates!(insta::assert_snapshot!(refusal, @"
        registry.example/team/signed:1: the policy for registry.example requires a signature of key sha256:[digest], and its referrers are not valid signatures: it was not made with a key of the policy
        hint: the image may have been changed, or its publisher may sign with another key; set the trusted signers in spec.signatures of the bundle manifest
        "));
    }
    let identity = "[{prefix: registry.example, identity: a@b.example, issuer: https://c.example}]";
    let refusal = site.resolve(identity).await.unwrap_err().to_string();
    insta::assert_snapshot!(refusal, @"
    registry.example/team/signed:1: the policy for registry.example requires a signature of a@b.example by https://c.example, and its referrers are not valid signatures: it was made with a key and has no certificate; use a policy with that key
    hint: the image may have been changed, or its publisher may sign with another key; set the trusted signers in spec.signatures of the bundle manifest
    ");
    // In both formats, one signature with a trusted key is enough.
    site.sign("trusted", "team/signed:1");
    let images = site.resolve(&policy("ifPresent")).await.unwrap();
    assert!(images[0].signature.as_ref().unwrap().referrers.is_none());
    let site = Site::start().await;
    site.sign("other", "team/signed:1");
    site.attach("other", "team/signed:1");
    let refusal = site
        .resolve(&policy("ifPresent"))
        .await
        .unwrap_err()
        .to_string();
    insta::assert_snapshot!(refusal, @"
    registry.example/team/signed:1: the policy for registry.example requires a signature of key sha256:[digest], and the signature at registry.example/team/signed:sha256-[digest].sig is not valid: it was not made with a key of the policy, and its referrers are not valid signatures: it was not made with a key of the policy
    hint: the image may have been changed, or its publisher may sign with another key; set the trusted signers in spec.signatures of the bundle manifest
    ");
    site.attach("trusted", "team/signed:1");
    let images = site.resolve(&policy("ifPresent")).await.unwrap();
    assert!(images[0].signature.as_ref().unwrap().referrers.is_some());
}
