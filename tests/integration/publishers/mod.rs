//! Images with signatures of their publishers: valid ones are accepted, all others are refused.

mod attached;
mod authority;
mod bundled;
mod bundles;
mod cosign;
mod documents;
mod identity;
mod in_bundles;
mod layout;
mod listing;
mod log;
mod referrers_in_bundles;
mod refused_bundles;
mod refused_timestamps;
mod second_rekor;
mod site;
mod timestamp_authority;
mod timestamps;
mod transparency;
mod uneven_registries;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_catalog::Catalog;
use kubexm_sigstore::{
    Artifact, Part, Signer, Trust, TrustedRoot, Unverified, document, file, verify_any,
};
use kubexm_types::Digest;
use kubexm_types::signature_policy::{Identity, Rule, SignedBy};
use serde_json::Value;

use crate::example::InMemory;
use authority::{IDENTITY, ISSUER, Sigstore, Wish, manifest};

/// Also replaces digests, which depend on random keys.
pub fn filters() -> [insta::internals::SettingsBindDropGuard; 2] {
    let outer = crate::snapshots::filters();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[digest]");
    [settings.bind_to_scope(), outer]
}

fn image() -> Digest {
    Digest::of(b"an image")
}

fn wanted() -> Identity {
    Identity::new(IDENTITY, ISSUER)
}

fn decoded(text: &Value) -> Vec<u8> {
    STANDARD.decode(text.as_str().unwrap()).unwrap()
}

fn root(sigstore: &Sigstore) -> TrustedRoot {
    TrustedRoot::parse(sigstore.trusted_root().to_string().as_bytes()).unwrap()
}

/// The artifact that `image` names.
fn artifact(digest: &Digest) -> Artifact<'_> {
    Artifact::Image {
        digest,
        manifest: b"an image",
    }
}

/// Returns the text of an error, which states what failed, for which artifact, and the cause.
fn stated(error: Unverified) -> String {
    let text = error.to_string();
    let rest = text.strip_prefix("cannot verify the signature of sha256:");
    let (digest, cause) = rest.and_then(|rest| rest.split_once(": ")).unwrap();
    assert!(digest.len() == 64 && cause == error.cause() && !cause.is_empty());
    text
}

/// Verifies a file with its published signature.
fn verify_file(
    content: &[u8],
    signature: &[u8],
    certificate: Option<&[u8]>,
    trust: Trust<'_>,
) -> Result<Signer, String> {
    let bundle = file::bundle(signature, certificate)?;
    kubexm_sigstore::verify(&bundle, Artifact::File(content), trust).map_err(stated)
}

/// Verifies a signature manifest.
fn verify(blobs: &InMemory, manifest: &[u8], trust: Trust<'_>) -> Result<Signer, String> {
    let payload = |part: &Part| blobs.0.get(&part.digest).cloned().ok_or("not there".into());
    let manifest = document::read(manifest)?;
    verify_any(manifest.bundles(&payload), artifact(&image()), trust).map_err(stated)
}

fn by_identity(sigstore: &Sigstore, blobs: &InMemory, manifest: &Value) -> Result<Signer, String> {
    let (identity, root) = (wanted(), root(sigstore));
    let manifest = manifest.to_string();
    verify(
        blobs,
        manifest.as_bytes(),
        Trust::Identity(&identity, &root),
    )
}

/// Returns one claim with the given fault.
fn claimed(sigstore: &Sigstore, wish: &Wish) -> (InMemory, Value) {
    let mut blobs = InMemory::default();
    let claim = sigstore.claim(&mut blobs, wish);
    let manifest = manifest(&mut blobs, &[claim]);
    (blobs, manifest)
}

/// Images and programs of Kubernetes have different signers with similar names
/// (<https://kubernetes.io/docs/tasks/administer-cluster/verify-signed-artifacts/>). In 2022, another account signed
/// images (<https://github.com/kubernetes/release/issues/2789>).
#[test]
fn catalog_has_the_signers_of_kubernetes() {
    let known = |prefix: &str| {
        let policies = Catalog::embedded().unwrap().signatures();
        let policy = policies.into_iter().filter(|p| p.prefix.covers(prefix));
        let policy = policy.max_by_key(|p| p.prefix.length());
        let (by, since) = match policy.map(|p| p.rule) {
            Some(Rule::RequireSince(by, version)) => (by, format!("since {version}")),
            Some(Rule::IfPresent(by)) => (by, "if present".to_owned()),
            other => panic!("{prefix}: {other:?}"),
        };
        let SignedBy::Identities { identities, .. } = by else {
            panic!("{prefix}: {by:?}");
        };
        let signers: Vec<String> = identities.iter().map(ToString::to_string).collect();
        format!("{}, {since}", signers.join(" or "))
    };
    let google = "iam.gserviceaccount.com by https://accounts.google.com";
    let images = format!(
        "krel-trust@k8s-releng-prod.{google} or k8s-infra-gcr-promoter@k8s-artifacts-prod.{google} \
         from 2022-10-01T00:00:00Z until 2022-12-31T23:59:59Z"
    );
    assert_eq!(
        known("registry.k8s.io/pause"),
        format!("{images}, since 3.9.0")
    );
    let kubeadm = "dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubeadm";
    assert_eq!(
        known(kubeadm),
        format!("krel-staging@k8s-releng-prod.{google}, since 1.26.0")
    );
    assert_eq!(
        known("registry.k8s.io/e2e-test-images/agnhost"),
        format!("{images}, if present")
    );
}
