//! Network plugins whose images are those that their own manifest names.

use kubexm_bundle::Lock;
use kubexm_bundle::lock::{ChecksumSource, FileFormat};
use kubexm_catalog::Catalog;
use kubexm_config::manifest::Manifest;
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::Policies;
use kubexm_types::Version;

use super::*;

/// Returns a manifest with flannel alone.
fn flannel(version: &Version) -> Manifest {
    Manifest {
        name: "m".to_owned(),
        architectures: vec![Arch::Amd64],
        kubernetes: Vec::new(),
        kubernetes_kinds: Vec::new(),
        conformance: false,
        components: Default::default(),
        network: [("flannel".to_owned(), version.clone())].into(),
        load_balancer: Default::default(),
        addons: Vec::new(),
        images: Vec::new(),
        oci_artifacts: Vec::new(),
        images_from: Vec::new(),
        image_paths: Vec::new(),
        packages: Vec::new(),
        artifacts: Vec::new(),
        signatures: Vec::new(),
        notices: Vec::new(),
    }
}

fn pods(image: &str) -> String {
    format!(
        "kind: Namespace\napiVersion: v1\n---\nkind: DaemonSet\nspec: {{template: {{spec: {{\n  \
         initContainers: [{{name: install, image: '{image}-cni-plugin:v1.9.1-flannel3'}}],\n  \
         containers: [{{name: kube-flannel, image: '{image}:v0.28.10'}}]}}}}}}\n"
    )
}

async fn build(
    origin: &Origin,
    version: &Version,
    previous: Option<&Lock>,
) -> Result<Lock, FetchError> {
    let reader = Reader::with(origin, |mirrors| {
        let to = |from: &str| [(from.to_owned(), vec![origin.uri()])].into();
        mirrors.downloads = to("https://github.com");
        mirrors.registries = to("ghcr.io");
    });
    let catalog = Catalog::embedded().unwrap();
    let policies = Policies::load(&catalog, &[], &[]).unwrap();
    let resolver = Resolver::new(&reader.http, &catalog, previous, &policies);
    resolver.build(&flannel(version)).await
}

fn place(version: &Version) -> String {
    format!("/flannel-io/flannel/releases/download/v{version}/kube-flannel.yml")
}

/// A release that this version of kubexm does not list.
#[tokio::test(flavor = "multi_thread")]
async fn flannel_has_the_images_of_its_manifest() {
    let origin = Origin::start(Rules::default()).await;
    let version = Version::new(0, 28, 10);
    origin.put(&place(&version), pods("ghcr.io/flannel-io/flannel"));
    put_image_at(&origin, "flannel-io/flannel", "v0.28.10", b"a layer");
    put_image_at(
        &origin,
        "flannel-io/flannel-cni-plugin",
        "v1.9.1-flannel3",
        b"a plugin",
    );
    let lock = build(&origin, &version, None).await.unwrap();
    let images: Vec<String> = lock
        .images
        .iter()
        .map(|image| image.name.to_string())
        .collect();
    assert_eq!(
        images,
        [
            "ghcr.io/flannel-io/flannel:v0.28.10",
            "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel3"
        ]
    );
    let manifest = lock.file("flannel", Arch::Amd64).unwrap();
    assert_eq!(
        (manifest.format, &manifest.version),
        (FileFormat::Manifest, &version)
    );
    // The publisher serves no checksum, and the mirror of this test is trusted.
    assert!(
        matches!(manifest.checksum, ChecksumSource::Mirror(_)),
        "{manifest:?}"
    );
    // The same lock again, and a page in place of the manifest.
    let again = build(&origin, &version, Some(&lock)).await.unwrap();
    assert_eq!(again, lock);
    origin.put(&place(&version), "kind: Namespace\napiVersion: v1\n");
    let refusal = build(&origin, &version, None)
        .await
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("does not name an image"), "{refusal}");
}

/// Locks of earlier versions of kubexm have the images of flannel 0.28.4 without its manifest.
#[tokio::test(flavor = "multi_thread")]
async fn earlier_lock_with_the_images_of_flannel_stays_as_it_is() {
    let origin = Origin::start(Rules::default()).await;
    let version = Version::new(0, 28, 4);
    let mut images = Vec::new();
    for (repository, tag, layer) in [
        (
            "flannel-io/flannel-cni-plugin",
            "v1.9.1-flannel1",
            &b"a plugin"[..],
        ),
        ("flannel-io/flannel", "v0.28.4", b"a layer"),
    ] {
        let index = put_image_at(&origin, repository, tag, layer);
        let reader = Reader::with(&origin, |mirrors| {
            mirrors.registries = [("ghcr.io".to_owned(), vec![origin.uri()])].into();
        });
        let name = format!("ghcr.io/{repository}:{tag}").parse().unwrap();
        let puller = Puller::new(reader.http.clone());
        images.push(puller.resolve(&name, &[Arch::Amd64], None).await.unwrap());
        let bytes = reader.http.cache().read(&index).unwrap();
        origin.put(&format!("/v2/{repository}/manifests/{index}"), bytes);
    }
    let (mut earlier, _) = crate::example::example(&[]);
    earlier.name = "m".to_owned();
    earlier.kubernetes = Vec::new();
    earlier.images = images;
    earlier.sort();
    let lock = build(&origin, &version, Some(&earlier)).await.unwrap();
    assert_eq!(lock, earlier);
    assert!(origin.seen("kube-flannel.yml").is_empty());
    // A new lock has the manifest.
    let refusal = build(&origin, &version, None)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains("kube-flannel.yml answered 404"),
        "{refusal}"
    );
}
