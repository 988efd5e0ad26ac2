//! Images as Docker, BuildKit, ko, Bazel and podman publish them: indexes, indexes below them, and single manifests.

use std::sync::Arc;

use kubexm_bundle::lock::LockedImage;
use kubexm_bundle::{Blobs, Bundle, Level, Lock, PackOptions, Placement, write};
use kubexm_engine::seed::{RegistryContent, missing, seed};
use kubexm_fetch::oci::{PushAccess, Pusher};
use serde_json::{Value, json};

use super::*;
use crate::example::example;
use crate::sandbox::{Sandbox, path};
use crate::travel::registry::{Registry, programs};

pub(super) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
pub(super) const NAME: &str = "registry.invalid/team/app:1";

/// A repository of a registry.
pub(super) struct Repository {
    pub(super) origin: Origin,
}

impl Repository {
    pub(super) async fn new() -> Self {
        let origin = Origin::start(Rules::default()).await;
        Self { origin }
    }

    pub(super) fn blob(&self, media_type: &str, content: &[u8]) -> Value {
        let digest = Digest::of(content);
        self.origin
            .put(&format!("/v2/team/app/blobs/{digest}"), content);
        json!({"mediaType": media_type, "digest": digest, "size": content.len()})
    }

    /// Puts a manifest or an index, also under the tag. Returns its descriptor.
    pub(super) fn document(&self, media_type: &str, document: &Value) -> Value {
        let text = document.to_string();
        let digest = Digest::of(text.as_bytes());
        for name in [digest.to_string(), "1".to_owned()] {
            self.origin
                .put(&format!("/v2/team/app/manifests/{name}"), text.clone());
        }
        json!({"mediaType": media_type, "digest": digest, "size": text.len()})
    }

    /// Puts the manifest of an image whose configuration names a platform.
    fn image(&self, platform: &str, number: u8) -> Value {
        self.image_of((OCI_MANIFEST, OCI_CONFIG), platform, number)
    }

    pub(super) fn image_of(
        &self,
        (kind, config): (&str, &str),
        platform: &str,
        number: u8,
    ) -> Value {
        let (os, architecture) = platform.split_once('/').unwrap();
        let platform = json!({"os": os, "architecture": architecture, "number": number});
        let config = self.blob(config, platform.to_string().as_bytes());
        let layer = self.blob("application/vnd.oci.image.layer.v1.tar+zstd", &[number; 9]);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer],
        });
        self.document(kind, &manifest)
    }

    pub(super) fn index(&self, entries: &[Value]) -> Value {
        let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries});
        self.document(OCI_INDEX, &index)
    }

    async fn resolve(&self, arches: &[Arch]) -> Result<LockedImage, String> {
        let reader = Reader::of(&self.origin);
        let puller = Puller::new(reader.http.clone());
        let name = NAME.parse().unwrap();
        let resolved = puller.resolve(&name, arches, None).await;
        resolved.map_err(|error| error.to_string())
    }

    /// Checks which manifest is chosen, and the number of indexes above it that are below the top manifest.
    async fn has(&self, arch: Arch, expected: &Value, indexes: usize) {
        let image = self.resolve(&[arch]).await.unwrap();
        let platform = &image.platforms[0];
        assert_eq!(
            platform.manifest.digest.to_string(),
            expected["digest"].as_str().unwrap()
        );
        assert_eq!(
            (platform.arch, platform.indexes.len()),
            (Some(arch), indexes)
        );
        assert_eq!(platform.blobs.len(), 2);
    }
}

/// Adds a platform to a descriptor.
pub(super) fn on(descriptor: &Value, platform: &str) -> Value {
    let mut parts = platform.split('/');
    let mut entry = descriptor.clone();
    entry["platform"] = json!({"os": parts.next(), "architecture": parts.next()});
    if let Some(variant) = parts.next() {
        entry["platform"]["variant"] = variant.into();
    }
    entry
}

/// BuildKit: attestations beside the images, and an index below the index for each platform, as
/// `docker buildx imagetools create` makes it of images with attestations.
#[tokio::test(flavor = "multi_thread")]
async fn platform_in_an_index_below_the_index_is_found() {
    let repository = Repository::new().await;
    let amd = repository.image("linux/amd64", 1);
    let arm = repository.image("linux/arm64", 2);
    let attestation = on(&repository.image("unknown/unknown", 3), "unknown/unknown");
    let amd_index = repository.index(&[on(&amd, "linux/amd64"), attestation.clone()]);
    let arm_index = repository.index(&[attestation, on(&arm, "linux/arm64")]);
    // With a platform beside the lower index, without one, and two levels deep.
    for entries in [
        vec![on(&amd_index, "linux/amd64"), on(&arm_index, "linux/arm64")],
        vec![amd_index.clone(), arm_index.clone()],
    ] {
        repository.index(&entries);
        repository.has(Arch::Amd64, &amd, 1).await;
        repository.has(Arch::Arm64, &arm, 1).await;
        let inner = repository.index(&entries);
        repository.index(&[inner]);
        repository.has(Arch::Arm64, &arm, 2).await;
    }
    repository.index(&[amd_index, on(&arm, "linux/arm64")]);
    repository.has(Arch::Amd64, &amd, 1).await;
    repository.has(Arch::Arm64, &arm, 0).await;
}

/// Bazel, ko and podman: documents without media types or platforms, Docker's types, and other names of platforms.
#[tokio::test(flavor = "multi_thread")]
async fn manifests_of_other_tools_are_understood() {
    let repository = Repository::new().await;
    let other = repository.image("linux/s390x", 1);
    let wanted = repository.image("linux/amd64", 2);
    let sbom = repository.blob("application/spdx+json", b"{}");
    // Bazel: entries without a platform, in a document without a media type.
    let index = json!({"schemaVersion": 2, "manifests": [sbom, other, wanted]});
    repository.document(OCI_INDEX, &index);
    repository.has(Arch::Amd64, &wanted, 0).await;
    // Docker: a manifest list of schema 2.
    let wanted = repository.image_of((DOCKER_MANIFEST, DOCKER_CONFIG), "linux/arm64", 3);
    let list = json!({
        "schemaVersion": 2, "mediaType": DOCKER_LIST,
        "manifests": [on(&other, "linux/s390x"), on(&wanted, "linux/arm64/v8")],
    });
    repository.document(DOCKER_LIST, &list);
    repository.has(Arch::Arm64, &wanted, 0).await;
    // podman: one manifest without a media type.
    let mut single = json!({"schemaVersion": 2, "layers": []});
    single["config"] = repository.blob(OCI_CONFIG, br#"{"os":"linux","architecture":"amd64"}"#);
    single["layers"] = json!([repository.blob("application/vnd.oci.image.layer.v1.tar", b"l")]);
    let single = repository.document(OCI_MANIFEST, &single);
    repository.has(Arch::Amd64, &single, 0).await;
    // Names of the kernel, and a variant that every processor has.
    let wanted = repository.image("linux/amd64", 4);
    let newer = repository.image("linux/amd64", 5);
    for platform in ["linux/x86_64", "linux/amd64/v1", "Linux/AMD64"] {
        repository.index(&[on(&newer, "linux/amd64/v3"), on(&wanted, platform)]);
        repository.has(Arch::Amd64, &wanted, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_platform_is_reported_with_those_that_exist() {
    let repository = Repository::new().await;
    let image = repository.image("linux/s390x", 1);
    let attestation = on(&image, "unknown/unknown");
    let below = repository.index(&[on(&image, "linux/s390x"), attestation.clone()]);
    repository.index(&[below, on(&image, "linux/amd64/v3"), attestation.clone()]);
    let refusal = repository.resolve(&[Arch::Amd64]).await.unwrap_err();
    insta::assert_snapshot!(refusal, @"
    registry.invalid/team/app:1: has no linux/amd64; it has linux/amd64/v3, linux/s390x
    hint: choose an image for this architecture, or leave the architecture out of spec.architectures
    ");
    repository.index(&[attestation]);
    let refusal = repository.resolve(&[Arch::Amd64]).await.unwrap_err();
    insta::assert_snapshot!(refusal, @"
    registry.invalid/team/app:1: has no linux/amd64; its index does not name a platform
    hint: choose an image for this architecture, or leave the architecture out of spec.architectures
    ");
    repository.image("windows/amd64", 2);
    let refusal = repository.resolve(&[Arch::Amd64]).await.unwrap_err();
    assert!(
        refusal.contains("has no linux/amd64; it has windows/amd64"),
        "{refusal}"
    );
    // A chart is not an image.
    let chart = json!({
        "schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": [],
        "config": repository.blob("application/vnd.cncf.helm.config.v1+json", b"{}"),
    });
    repository.document(OCI_MANIFEST, &chart);
    let refusal = repository.resolve(&[Arch::Amd64]).await.unwrap_err();
    assert!(refusal.contains("does not name a platform"), "{refusal}");
    // Indexes that lead to each other, or to very many.
    let many: Vec<Value> = (0..40)
        .map(|n| {
            repository.index(&[json!({
                "mediaType": "text/plain", "digest": Digest::of(&[n]), "size": 1,
            })])
        })
        .collect();
    repository.index(&many);
    let refusal = repository.resolve(&[Arch::Amd64]).await.unwrap_err();
    assert!(refusal.contains("it has more than 32 indexes"), "{refusal}");
    let old = json!({"schemaVersion": 1, "mediaType": "application/vnd.docker.distribution.manifest.v1+prettyjws"});
    repository.document(DOCKER_MANIFEST, &old);
    let refusal = repository.resolve(&[Arch::Amd64]).await.unwrap_err();
    assert!(refusal.contains("Docker's schema 2 only"), "{refusal}");
}

/// From the publisher to the registry of a cluster, and to a registry of the site that checks references.
#[tokio::test(flavor = "multi_thread")]
async fn image_with_an_index_below_its_index_reaches_the_registries() {
    let repository = Repository::new().await;
    let amd = repository.image("linux/amd64", 1);
    let arm = repository.image("linux/arm64", 2);
    let below = repository.index(&[on(&amd, "linux/amd64"), on(&arm, "linux/arm64")]);
    repository.index(&[below]);
    let reader = Reader::of(&repository.origin);
    let puller = Puller::new(reader.http.clone());
    let name = NAME.parse().unwrap();
    let both = [Arch::Amd64, Arch::Arm64];
    let image = puller.resolve(&name, &both, None).await.unwrap();
    for blob in image.platforms.iter().flat_map(|platform| &platform.blobs) {
        puller.blob(&name, blob).await.unwrap();
    }
    let (mut lock, _) = example(&[]);
    lock.architectures = both.to_vec();
    lock.images = vec![image];
    lock.sort();
    assert_eq!(lock.lock_version, 4);

    let host = Sandbox::new();
    let (data, content) = (path("/data"), RegistryContent::new(&lock));
    let blobs: Arc<dyn Blobs> = Arc::new(reader.http.cache().clone());
    let lacking = missing(host.host.as_ref(), &data, &content).await.unwrap();
    seed(host.host.as_ref(), &data, lacking, blobs, &host.events)
        .await
        .unwrap();
    let bundle = reader.folder.path().join("b.tar.zst");
    let storage = Placement::plain(&lock);
    let (options, events) = (PackOptions::new(Level::MIN, 1), Events::silent());
    write(
        &bundle,
        &lock,
        &storage,
        reader.http.cache(),
        options,
        &events,
    )
    .unwrap();
    let bundle = Arc::new(Bundle::open(&bundle).unwrap());
    assert_eq!(*bundle.lock(), lock);
    for program in programs() {
        // The registry of a cluster.
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(host.at("/data"), folder.path().join("registry")).unwrap();
        let registry = Registry::start(&program, folder.path());
        is_served(&registry, "registry.invalid/", &lock).await;
        // A registry of the site.
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::start(&program, folder.path());
        let place = format!("127.0.0.1:{}/team/app:1", registry.port)
            .parse()
            .unwrap();
        let spool = folder.path().join("spool");
        std::fs::create_dir(&spool).unwrap();
        let access = PushAccess::default();
        let pusher = Pusher::new(place, access, None, &spool, Events::silent()).await;
        let pusher = pusher.unwrap();
        pusher.push_image(&bundle, &lock.images[0]).await.unwrap();
        is_served(&registry, "", &lock).await;
    }
}

/// Checks that a client that starts with the tag finds both platforms of the only image of a lock.
async fn is_served(registry: &Registry, prefix: &str, lock: &Lock) {
    let served = Origin::default();
    let reader = Reader::with(&served, |mirrors| {
        let place = format!("http://127.0.0.1:{}/{prefix}", registry.port);
        mirrors.registries = [("registry.invalid".to_owned(), vec![place])].into();
    });
    let puller = Puller::new(reader.http.clone());
    let name = NAME.parse().unwrap();
    let both = [Arch::Amd64, Arch::Arm64];
    let found = puller.resolve(&name, &both, None).await.unwrap();
    assert_eq!(found.manifest, lock.images[0].manifest);
    assert_eq!(found.platforms, lock.images[0].platforms);
}
