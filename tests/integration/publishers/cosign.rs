//! The real cosign: kubexm accepts its signatures, and cosign accepts those that kubexm transports.

use kubexm_bundle::Lock;
use kubexm_bundle::lock::ChecksumSource;
use kubexm_catalog::Catalog;
use kubexm_config::Mirrors;
use kubexm_config::mirrors::Checksums;
use kubexm_fetch::file_signatures::{FoundSignature, Signed};
use kubexm_fetch::signatures::Policies;
use kubexm_fetch::{Cache, Http};
use kubexm_sigstore::Signer;
use kubexm_types::Version;
use kubexm_types::event::Events;
use kubexm_types::signature_policy::{Rule, SignaturePolicy, SignedBy};
use wiremock::matchers::path as url_path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::site::{OFFLINE, OLDER, PLAIN, SIGNED, Site, cosign, policy};
use crate::example::kubexm;

#[tokio::test(flavor = "multi_thread")]
async fn cosign_signatures_are_accepted_and_cosign_accepts_them_after_transport() {
    let site = Site::start().await;
    site.sign("trusted", "team/signed:1");
    let images = site.resolve(&policy("ifPresent")).await.unwrap();
    let signature = images[0].signature.clone().unwrap();
    assert!(images[1].signature.is_none());
    let key = std::fs::read_to_string(site.folder.path().join("trusted.pub")).unwrap();
    assert_eq!(signature.by, Signer::Key(key.parse().unwrap()));

    let (bundle, lock) = site.bundle("b.tar.zst", images);
    let (code, said) = kubexm(&["bundle", "verify", &bundle]);
    let signer = signature.by.to_string();
    assert!(
        code == Some(0) && said.contains(&format!("1 images: signed by {signer}")),
        "{said}"
    );
    let (_, said) = kubexm(&["bundle", "inspect", &bundle]);
    assert!(
        said.contains(&format!("signed         1 images by {signer}")),
        "{said}"
    );
    let (_, said) = kubexm(&["bundle", "list", &bundle]);
    assert!(said.contains(&format!("signed by {signer}")), "{said}");

    // Through a registry of the site: cosign accepts the signature with this key, and with no other.
    let cache = site.folder.path().join("push").display().to_string();
    let place = format!("oci://{}", site.place("site/bundles:1"));
    let push = ["bundle", "push", &bundle, &place, "--cache", &cache];
    let (code, said) = kubexm(&push);
    assert!(
        code == Some(0) && said.contains("signed   1 of them"),
        "{said}"
    );
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
    let pull = [
        "bundle", "pull", &place, "-o", &back, "--level", "1", "--cache",
    ];
    let (code, said) = kubexm(&[&pull[..], &[&format!("{cache}-2")]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&bundle).unwrap());

    // A third party signs in the registry: another push keeps that signature.
    site.sign("other", &format!("site/bundles@{digest}"));
    site.verify("other", &pushed).unwrap();
    let (code, said) = kubexm(&push);
    assert!(
        code == Some(0) && said.contains("has other signatures"),
        "{said}"
    );
    site.verify("other", &pushed).unwrap();
    site.verify("trusted", &pushed).unwrap();

    // Through an OCI layout.
    let out = site.folder.path().join("layout").display().to_string();
    let export = ["bundle", "export", &bundle, "--oci-layout", &out];
    let (code, said) = kubexm(&[&export[..], &["--image", SIGNED]].concat());
    assert_eq!(code, Some(0), "{said}");
    site.verify_layout("trusted", &out).unwrap();
    assert!(site.verify_layout("other", &out).is_err());
}

/// The registry of a cluster, as an install fills it.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_registry_serves_the_signatures_of_its_images() {
    let site = Site::start().await;
    site.sign("trusted", "team/signed:1");
    let images = site.resolve(&policy("ifPresent")).await.unwrap();
    let (_, lock) = site.bundle("b.tar.zst", images);
    site.is_served(&lock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn image_without_the_required_signature_is_not_built() {
    let _filters = super::filters();
    let site = Site::start().await;
    let refused = async |signatures: &str| site.resolve(signatures).await.unwrap_err().to_string();
    let refusal = refused(&policy("require")).await;
    for image in [SIGNED, PLAIN] {
        let wanted = format!("{image}: registry.example requires one of key sha256:");
        assert!(refusal.contains(&wanted), "{refusal}");
    }
    insta::assert_snapshot!(refusal, @"
    images without a required signature: a signature policy requires one
      registry.example/team/plain:1: registry.example requires one of key sha256:[digest]
      registry.example/team/signed:1: registry.example requires one of key sha256:[digest]
    hint: set the trusted signers in spec.signatures of the bundle manifest; `mode: ifPresent` there accepts a missing signature
    ");
    site.sign("other", "team/signed:1");
    for mode in ["require", "ifPresent"] {
        let refusal = refused(&policy(mode)).await;
        assert!(
            refusal.contains(&format!(
                "{SIGNED}: the policy for registry.example requires"
            )) && refusal.contains("is not valid: it was not made with a key of the policy"),
            "{refusal}"
        );
    }
    let refusal = refused(
        "[{prefix: registry.example, identity: a@b.example, issuer: https://c.example, mode: ifPresent}]",
    )
    .await;
    insta::assert_snapshot!(refusal, @"
    registry.example/team/signed:1: the policy for registry.example requires a signature of a@b.example by https://c.example, and the signature at registry.example/team/signed:sha256-[digest].sig is not valid: it was made with a key and has no certificate; use a policy with that key
    hint: the image may have been changed, or its publisher may sign with another key; set the trusted signers in spec.signatures of the bundle manifest
    ");
    assert!(
        refused("[{prefix: registry.example, key: none.pub}]")
            .await
            .contains("none.pub: cannot be read")
    );
    assert!(
        refused("[{prefix: registry.example, key: trusted.key}]")
            .await
            .contains("BEGIN PUBLIC KEY")
    );

    // The policy with the longest prefix applies, and one of several keys is enough.
    let ignored = format!(
        "[{{prefix: registry.example/team, mode: ignore}}, {}",
        &policy("require")[1..]
    );
    let images = site.resolve(&ignored).await.unwrap();
    assert!(images.iter().all(|image| image.signature.is_none()));
    let either = "[{prefix: registry.example, key: [trusted.pub, other.pub], mode: ifPresent}]";
    let images = site.resolve(either).await.unwrap();
    assert!(images[0].signature.is_some());

    // A second signature changes the manifest; the manifest in the lock is used as long as the registry has
    // it.
    let (_, lock) = site.bundle("b.tar.zst", images.clone());
    site.sign("trusted", "team/signed:1");
    let again = site.resolve_again(either, Some(&lock)).await.unwrap();
    assert_eq!(again, images);
    let anew = site.resolve(either).await.unwrap();
    assert_ne!(anew[0].signature, images[0].signature);
    // With that one the stricter policy is satisfied, whatever the lock has.
    let stricter = site.resolve_again(&policy("ifPresent"), Some(&lock)).await;
    assert_eq!(
        stricter.unwrap()[0].signature.as_ref().unwrap().manifest,
        anew[0].signature.as_ref().unwrap().manifest
    );
    let refusal = {
        let lock = Lock {
            images: anew,
            ..lock.clone()
        };
        kubexm_bundle::lock::difference::differences(
            &lock,
            &Lock {
                images: images.clone(),
                ..lock.clone()
            },
        )
    };
    let (repository, _) = SIGNED.rsplit_once(':').unwrap();
    assert!(
        refusal[0]
            .to_string()
            .starts_with(&format!("~ signature of {repository} key sha256:")),
        "{}",
        refusal[0]
    );
}

/// A registry that only its mirror can reach: the signature proves what no publisher can state.
#[tokio::test(flavor = "multi_thread")]
async fn signature_replaces_a_publisher_out_of_reach() {
    let mut site = Site::start().await;
    site.sign("trusted", "team/signed:1");
    site.set_checksums(Checksums::Origin);
    let signed = [SIGNED.parse().unwrap()];
    let images = site
        .resolve_names(&policy("ifPresent"), None, &signed)
        .await;
    let image = &images.unwrap()[0];
    assert_eq!(image.checksum, Some(ChecksumSource::Signed));
    assert!(image.signature.is_some());
    // Without a signature, and with one that no policy asks for.
    let plain = [PLAIN.parse().unwrap()];
    for (policy, names) in [(policy("ifPresent"), &plain), ("[]".to_owned(), &signed)] {
        let error = site
            .resolve_names(&policy, None, names)
            .await
            .unwrap_err()
            .to_string();
        let asked =
            "cannot ask the publisher registry.example for https://registry.example/v2/team/";
        assert!(error.contains(asked), "{error}");
        assert!(error.contains("checksums: mirror"), "{error}");
    }
}

/// Signatures of `cosign sign-blob` beside a file, from an HTTP server.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_verified_against_their_detached_signature() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    cosign(
        folder.path(),
        &["generate-key-pair", "--output-key-prefix=trusted"],
    )
    .unwrap();
    std::fs::write(at("kubeadm"), "a program").unwrap();
    let output = [
        "--key=trusted.key",
        "--output-signature=kubeadm.sig",
        "kubeadm",
    ];
    let sign = [&["sign-blob"], &OFFLINE[..], &OLDER, &output].concat();
    cosign(folder.path(), &sign).unwrap();
    let server = MockServer::start().await;
    let mirrors = Mirrors {
        downloads: [("https://dl.example".to_owned(), vec![server.uri()])].into(),
        checksums: Checksums::Mirror,
        ..Mirrors::default()
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cache = Cache::open(&at("cache")).unwrap();
    let http = Http::new(mirrors, cache, Events::silent()).unwrap();
    let digest = http.cache().insert(b"a program").unwrap();
    let signature = std::fs::read(at("kubeadm.sig")).unwrap();
    for (place, content) in [("/kubeadm.sig", &signature[..]), ("/kubelet.sig", b"MEUC")] {
        let answer = ResponseTemplate::new(200).set_body_bytes(content);
        Mock::given(url_path(place))
            .respond_with(answer)
            .mount(&server)
            .await;
    }
    let verify = async |name: &str, mode: &str| {
        let policy = SignaturePolicy {
            prefix: "dl.example".parse().unwrap(),
            rule: match mode {
                "require" => Rule::Require(SignedBy::Keys(vec![at("trusted.pub")])),
                _ => Rule::IfPresent(SignedBy::Keys(vec![at("trusted.pub")])),
            },
        };
        let policies = Policies::load(&Catalog::embedded().unwrap(), &[policy], &[]).unwrap();
        let url = format!("https://dl.example/{name}").parse().unwrap();
        let version = Version::new(1, 36, 3);
        let signed = Signed {
            url: &url,
            version: &version,
            digest,
            previous: None,
        };
        policies
            .verify_file(&http, signed)
            .await
            .map_err(|error| error.to_string())
    };
    let found = verify("kubeadm", "require").await.unwrap();
    let found = found.signature.unwrap();
    assert!(matches!(found.by, Signer::Key(_)) && found.certificate.is_none());
    assert_eq!(
        http.cache().read(&found.signature.digest).unwrap(),
        signature
    );
    let missing = verify("etcd", "ifPresent").await.unwrap();
    assert_eq!(missing, FoundSignature::default());
    let refusal = verify("etcd", "require").await.unwrap_err();
    assert!(
        refusal.contains("https://dl.example/etcd: ") && refusal.contains("there is none"),
        "{refusal}"
    );
    for mode in ["require", "ifPresent"] {
        let refusal = verify("kubelet", mode).await.unwrap_err();
        assert!(
            refusal.contains("https://dl.example/kubelet: ")
                && refusal.contains("not made with a key of"),
            "{refusal}"
        );
    }
}
