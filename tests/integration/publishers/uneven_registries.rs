//! Registries that serve signatures only in part, as registry.k8s.io does, and signers that changed.

use std::sync::{Arc, Mutex};

use kubexm_bundle::Lock;
use kubexm_bundle::lock::LockedImage;
use kubexm_catalog::Catalog;
use kubexm_config::mirrors::Checksums;
use kubexm_config::{Mirrors, load_manifest};
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::Policies;
use kubexm_fetch::{Cache, FetchError, Http};
use kubexm_sigstore::{Signer, TrustedRoot};
use kubexm_types::event::{Event, Events, Listener};
use kubexm_types::{Arch, Digest};
use serde_json::{Value, json};

use super::authority::{BEGIN, Sigstore, Wish, manifest};
use crate::downloads::origin::{Origin, Rules};
use crate::downloads::put_image_at;
use crate::example::{InMemory, example, kubexm};

const GOOGLE: &str = "https://accounts.google.com";
const TODAY: &str = "krel-trust@k8s-releng-prod.iam.gserviceaccount.com";
const EARLIER: &str = "k8s-infra-gcr-promoter@k8s-artifacts-prod.iam.gserviceaccount.com";
/// When pause 3.9 was promoted: 14 November 2022.
const PROMOTED: i64 = 1_668_384_000;
/// An address that refuses connections.
const GONE: &str = "http://127.0.0.1:1";

/// An image in a registry that stands for registry.k8s.io, and the instance of Sigstore that its signer uses.
struct Registry {
    origin: Origin,
    sigstore: Sigstore,
    repository: &'static str,
    tag: &'static str,
    digest: Digest,
    folder: tempfile::TempDir,
}

impl Registry {
    async fn with(repository: &'static str, tag: &'static str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let origin = Origin::start(Rules::default()).await;
        let digest = put_image_at(&origin, repository, tag, b"a layer");
        Self {
            origin,
            sigstore: Sigstore::new(),
            repository,
            tag,
            digest,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn image(&self) -> String {
        format!("registry.k8s.io/{}:{}", self.repository, self.tag)
    }

    fn wish(&self, identity: &'static str, made: i64) -> Wish {
        Wish {
            identity,
            issuer: GOOGLE,
            begin: made,
            logged_at: made + 60,
            ..Wish::right(self.digest)
        }
    }

    /// Puts a signature under its tag. Returns its blobs by their paths.
    fn sign(&self, identity: &'static str, made: i64) -> Vec<(String, Vec<u8>)> {
        let mut blobs = InMemory::default();
        let claim = self.sigstore.claim(&mut blobs, &self.wish(identity, made));
        let manifest = manifest(&mut blobs, &[claim]);
        let place = |kind: &str, name: &str| format!("/v2/{}/{kind}/{name}", self.repository);
        let tag = format!("sha256-{}.sig", self.digest.hex());
        self.origin
            .put(&place("manifests", &tag), manifest.to_string());
        let put = |(digest, content): (Digest, Vec<u8>)| {
            let path = place("blobs", &digest.to_string());
            self.origin.put(&path, content.clone());
            (path, content)
        };
        blobs.0.into_iter().map(put).collect()
    }

    /// Returns the root of the signer's instance, which exists since 2022.
    fn root(&self) -> Value {
        let mut root = self.sigstore.trusted_root();
        for path in ["/tlogs/0/publicKey", "/certificateAuthorities/0"] {
            root.pointer_mut(path).unwrap()["validFor"]["start"] = json!("2022-01-01T00:00:00Z");
        }
        root
    }

    fn http(&self, addresses: &[&str], cache: &str, events: Events) -> Http {
        let addresses = addresses.iter().map(|address| (*address).to_owned());
        let mirrors = Mirrors {
            registries: [("registry.k8s.io".to_owned(), addresses.collect())].into(),
            checksums: Checksums::Mirror,
            ..Mirrors::default()
        };
        let cache = Cache::open(&self.folder.path().join(cache)).unwrap();
        Http::new(mirrors, cache, events).unwrap()
    }

    /// Resolves the image from this registry.
    async fn resolve(&self, signatures: &str) -> Result<LockedImage, FetchError> {
        let uri = self.origin.uri();
        let http = self.http(&[&uri], "cache", Events::silent());
        self.resolve_with(&http, signatures, None, true).await
    }

    async fn resolve_with(
        &self,
        http: &Http,
        signatures: &str,
        previous: Option<&Lock>,
        knows_root: bool,
    ) -> Result<LockedImage, FetchError> {
        let manifest = self.folder.path().join("manifest.yaml");
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {{name: m}}\nspec:\n  \
             architectures: [amd64]\n  kubernetes: {{versions: [\"1.36.3\"]}}\n  \
             signatures: {signatures}\n"
        );
        std::fs::write(&manifest, text).unwrap();
        let manifest = load_manifest(&manifest).unwrap();
        let catalog = Catalog::embedded().unwrap();
        let root = TrustedRoot::parse(self.root().to_string().as_bytes()).unwrap();
        let roots = if knows_root { vec![root] } else { Vec::new() };
        let policies = Policies::load(&catalog, &manifest.signatures, &roots)?;
        let resolver = Resolver::new(http, &catalog, previous, &policies);
        let names = [self.image().parse().unwrap()].into();
        let mut images = resolver
            .pull(names, Default::default(), &[Arch::Amd64])
            .await?;
        Ok(images.remove(0))
    }
}

/// The notes of a run.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Listener for Notes {
    fn on(&self, event: &Event) {
        if let Event::Note { message } = event {
            self.0.lock().unwrap().push(message.clone());
        }
    }
}

/// Returns who signed an image.
fn subject(image: &LockedImage) -> &str {
    match image.signature.as_ref().map(|signature| &signature.by) {
        Some(Signer::Identity { subject, .. }) => subject,
        other => panic!("{other:?}"),
    }
}

/// A policy of the user for an image that need not be signed.
const REQUIRED: &str = "[{prefix: registry.k8s.io, mode: require, identity: krel-trust@k8s-releng-prod.iam.gserviceaccount.com, issuer: 'https://accounts.google.com'}]";

#[tokio::test(flavor = "multi_thread")]
async fn earlier_account_is_accepted_for_the_time_when_it_signed() {
    for (identity, made) in [(TODAY, BEGIN), (TODAY, PROMOTED), (EARLIER, PROMOTED)] {
        let registry = Registry::with("pause", "3.9").await;
        registry.sign(identity, made);
        let image = registry.resolve("[]").await.unwrap();
        assert_eq!(subject(&image), identity);
    }
    let _filters = super::filters();
    let registry = Registry::with("pause", "3.9").await;
    registry.sign(EARLIER, BEGIN);
    let refusal = registry.resolve("[]").await.unwrap_err().to_string();
    for part in [
        "requires a signature of krel-trust@k8s-releng-prod.iam.gserviceaccount.com by https://accounts.google.com or k8s-infra-gcr-promoter@",
        "k8s-infra-gcr-promoter@k8s-artifacts-prod.iam.gserviceaccount.com signed it at 2024-01-01T00:01:00Z, but its signatures are accepted only from 2022-10-01T00:00:00Z until 2022-12-31T23:59:59Z",
    ] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
    // The same account does not sign for others.
    let registry = Registry::with("pause", "3.9").await;
    registry.sign("other@k8s-artifacts-prod.iam.gserviceaccount.com", PROMOTED);
    let refusal = registry.resolve("[]").await.unwrap_err().to_string();
    assert!(
        refusal.contains("it is by other@k8s-artifacts-prod"),
        "{refusal}"
    );
    assert!(!refusal.contains("--trusted-root"), "{refusal}");
}

/// registry.k8s.io serves the manifests of signatures by digest in one region only.
#[tokio::test(flavor = "multi_thread")]
async fn signature_that_is_served_only_by_tag_is_found_with_and_without_a_lock() {
    let registry = Registry::with("pause", "3.10").await;
    registry.sign(TODAY, BEGIN);
    let first = registry.resolve(REQUIRED).await.unwrap();
    assert_eq!(subject(&first), TODAY);
    let (mut lock, _) = example(&[]);
    lock.images = vec![first.clone()];
    // The top manifest is served by digest; the signature of another machine's lock is not.
    let index = registry.http(&[], "cache", Events::silent());
    let index = index.cache().read(&registry.digest).unwrap();
    let by_digest = format!("/v2/pause/manifests/{}", registry.digest);
    registry.origin.put(&by_digest, index);
    let uri = registry.origin.uri();
    let http = registry.http(&[&uri], "another-cache", Events::silent());
    let again = registry.resolve_with(&http, REQUIRED, Some(&lock), true);
    assert_eq!(again.await.unwrap().signature, first.signature);
}

#[tokio::test(flavor = "multi_thread")]
async fn signature_without_its_blob_counts_as_missing() {
    // The configuration, and the signed payload.
    for number in 0..2 {
        let registry = Registry::with("e2e-test-images/agnhost", "2.63.0").await;
        let (blob, _) = registry.sign(TODAY, BEGIN).swap_remove(number);
        registry.origin.remove(&blob);
        let image = registry.resolve("[]").await.unwrap();
        assert_eq!((image.signature, image.unsigned), (None, None));
        let refusal = registry.resolve(REQUIRED).await.unwrap_err().to_string();
        let reason = format!(
            "registry.k8s.io requires one of {TODAY} by {GOOGLE}; there is a signature, but {}{blob} answered 404",
            registry.origin.uri()
        );
        assert!(refusal.contains(&reason), "{reason}: {refusal}");
        let hint = "hint: the registry may have the whole signature in another region only";
        assert!(refusal.contains(hint), "{refusal}");
    }
}

/// An image whose publisher signs every version of it.
#[tokio::test(flavor = "multi_thread")]
async fn signature_of_a_publisher_that_always_signs_must_be_complete() {
    let registry = Registry::with("pause", "3.10").await;
    let blobs = registry.sign(TODAY, BEGIN);
    registry.origin.remove(&blobs[0].0);
    let refusal = registry.resolve("[]").await.unwrap_err().to_string();
    assert!(
        refusal.contains("registry.k8s.io/pause requires one of"),
        "{refusal}"
    );
    // Another address has all of it.
    let whole = Origin::start(Rules::default()).await;
    put_image_at(&whole, "pause", "3.10", b"a layer");
    let http = registry.http(
        &[&registry.origin.uri(), &whole.uri()],
        "third-cache",
        Events::silent(),
    );
    for (path, content) in blobs {
        whole.put(&path, content);
    }
    let image = registry
        .resolve_with(&http, "[]", None, true)
        .await
        .unwrap();
    assert_eq!(subject(&image), TODAY);
}

/// The mirror answers that there is no signature, and the publisher cannot be reached.
#[tokio::test(flavor = "multi_thread")]
async fn answer_of_a_mirror_wins_over_an_address_that_cannot_be_reached() {
    let registry = Registry::with("e2e-test-images/agnhost", "2.63.0").await;
    let uri = registry.origin.uri();
    for (addresses, cache) in [([uri.as_str(), GONE], "a"), ([GONE, uri.as_str()], "b")] {
        let notes = Arc::new(Notes::default());
        let events = Events::new(Arc::clone(&notes) as Arc<dyn Listener>);
        let http = registry.http(&addresses, cache, events);
        let image = registry
            .resolve_with(&http, "[]", None, true)
            .await
            .unwrap();
        assert_eq!(image.signature, None);
        let required = registry.resolve_with(&http, REQUIRED, None, true).await;
        let refusal = required.unwrap_err().to_string();
        assert!(
            refusal.contains("a signature policy requires one"),
            "{refusal}"
        );
        let notes = notes.0.lock().unwrap();
        let unsigned = notes.iter().any(|note| note.contains("have no signature"));
        assert!(unsigned, "{notes:?}");
    }
    // Without any answer, it is not known whether there is a signature.
    let http = registry.http(&[GONE, "http://127.0.0.1:2"], "a", Events::silent());
    assert!(
        registry
            .resolve_with(&http, "[]", None, true)
            .await
            .is_err()
    );
}

/// A signature of a log that was opened after this version of kubexm.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_log_is_named_and_trusted_with_a_newer_root() {
    let registry = Registry::with("pause", "3.10").await;
    registry.sign(TODAY, BEGIN);
    let uri = registry.origin.uri();
    let http = registry.http(&[&uri], "cache", Events::silent());
    let refusal = registry.resolve_with(&http, "[]", None, false).await;
    let refusal = refusal.unwrap_err().to_string();
    let log = format!(
        "its entry is in an unknown transparency log with the ID {}",
        registry.sigstore.log_id()
    );
    for part in [
        log.as_str(),
        "hint: Sigstore may have opened a new log",
        "--trusted-root",
    ] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
    let image = registry
        .resolve_with(&http, "[]", None, true)
        .await
        .unwrap();
    let root = Digest::of(registry.root().to_string().as_bytes());
    match image.signature.unwrap().by {
        Signer::Identity { trusted_root, .. } => assert_eq!(trusted_root, Some(root)),
        other @ Signer::Key(_) => panic!("{other}"),
    }
}

#[test]
fn trusted_root_that_cannot_be_read_is_named_before_anything_is_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("root.json"), "{}").unwrap();
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {name: m}\nspec:\n  architectures: [amd64]\n  kubernetes: {versions: [\"1.36.3\"]}\n";
    std::fs::write(at("bundle.yaml"), text).unwrap();
    for (root, reason) in [
        ("root.json", "has no certificate authority or no usable log"),
        ("missing.json", "cannot be read: No such file or directory"),
    ] {
        let (manifest, out, cache) = (at("bundle.yaml"), at("out.yaml"), at("cache"));
        let root = at(root);
        let (code, printed) = kubexm(&[
            "bundle",
            "lock",
            "-f",
            &manifest,
            "-o",
            &out,
            "--cache",
            &cache,
            "--trusted-root",
            &root,
        ]);
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains(&format!("{root}: {reason}")), "{printed}");
    }
}
