//! What mirrors are asked for, and how long kubexm waits for them.

use std::collections::BTreeSet;
use std::time::Duration;

use kubexm_catalog::{Catalog, Releases, mirrors};
use kubexm_config::cluster::Addon;
use kubexm_config::load_manifest;
use kubexm_config::manifest::Repositories;
use kubexm_fetch::releases::newest;
use kubexm_types::artifact::ArtifactLocation;
use kubexm_types::{ImageRef, Version};

use super::*;

/// The public addresses of kubexm's own files.
#[derive(Default)]
struct Public {
    urls: BTreeSet<String>,
    /// Repositories of charts.
    repositories: BTreeSet<String>,
    images: BTreeSet<ImageRef>,
}

impl Public {
    fn add_catalog(&mut self) {
        let catalog = Catalog::embedded().unwrap();
        let version = Version::new(1, 36, 3);
        for name in catalog.names() {
            for arch in [Arch::Amd64, Arch::Arm64] {
                let files = [
                    catalog.download(name, &version, arch).unwrap(),
                    catalog.former_download(name, &version, arch).unwrap(),
                ];
                for file in files.into_iter().flatten() {
                    self.urls.insert(file.url.to_string());
                    self.urls.extend(file.checksum.map(String::from));
                }
            }
            match catalog.releases(name) {
                Some(Releases::Stable { all, minor }) => {
                    self.urls.extend([all.clone(), minor.clone()]);
                }
                Some(Releases::Feed(feed)) => drop(self.urls.insert(feed.clone())),
                None => {}
            }
            self.images
                .extend(catalog.images(name, &version).unwrap_or_default());
        }
        for addon in Addon::ALL {
            let source = catalog.addon(*addon, &version).unwrap();
            if let ArtifactLocation::Repository { url, .. } = source.location {
                self.repositories.insert(url.to_string());
            }
        }
    }

    fn add_manifests(&mut self) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests");
        let mut bundles = 0;
        for name in names(&folder) {
            let path = folder.join(&name);
            let is_bundle = name.ends_with(".yaml")
                && std::fs::read_to_string(&path)
                    .unwrap()
                    .contains("kind: Bundle");
            if !is_bundle {
                continue;
            }
            bundles += 1;
            let manifest = load_manifest(&path).unwrap();
            self.images.extend(manifest.images);
            for source in manifest.packages {
                match source.repositories {
                    Repositories::Apt(all) => {
                        self.urls
                            .extend(all.iter().map(|one| one.url.public().to_string()));
                    }
                    Repositories::Dnf(set) => self.urls.extend(
                        set.repositories
                            .iter()
                            .map(|one| one.url.public().to_string()),
                    ),
                }
            }
        }
        assert!(bundles >= 4, "{bundles}");
    }
}

/// Every host that the catalog and the manifests of kubexm name has mirrors in China, or an entry. The public address is the last.
#[test]
fn mirrors_of_china_cover_every_public_host() {
    let mut public = Public::default();
    public.add_catalog();
    public.add_manifests();
    assert!(
        public.urls.len() > 40 && !public.images.is_empty(),
        "{:?}",
        public.urls
    );
    let mirrors = mirrors("cn").unwrap();
    for url in &public.urls {
        let found = mirrors.for_download(url).unwrap_or_default();
        assert!(
            found.len() > 1 && found.last() == Some(url),
            "{url}: {found:?}"
        );
        assert!(
            found[0].starts_with("https://") && found[0] != *url,
            "{url}: {found:?}"
        );
    }
    // No mirror there has repositories of charts.
    assert!(!public.repositories.is_empty());
    for url in &public.repositories {
        let found = mirrors.for_download(url).unwrap_or_default();
        assert_eq!(found, std::slice::from_ref(url));
    }
    // And the registries of the images that kubeadm, and Calico's and flannel's manifests name.
    for name in [
        "registry.k8s.io/pause:3.10",
        "quay.io/calico/node:v1",
        "ghcr.io/flannel-io/flannel:v1",
    ] {
        public.images.insert(name.parse().unwrap());
    }
    for image in &public.images {
        let found = mirrors.for_image(image).unwrap_or_default();
        let last = found.last().map(|address| address.repository.as_str());
        assert!(
            found.len() > 1 && last == Some(image.repository()),
            "{image}: {found:?}"
        );
    }
}

/// A mirror keeps lists of releases for weeks.
#[tokio::test(flavor = "multi_thread")]
async fn releases_are_read_from_the_publisher() {
    let publisher = Origin::start(Rules::default()).await;
    let mirror = Origin::start(Rules::default()).await;
    let feed =
        |version: &str| format!(r#"<link href="https://github.com/c/c/releases/tag/v{version}"/>"#);
    publisher.put("/releases.atom", feed("2.4.0"));
    mirror.put("/releases.atom", feed("2.3.0"));
    let reader = Reader::with(&mirror, |mirrors| {
        mirrors.checksums = Checksums::Origin;
        mirrors.downloads = [(publisher.uri(), vec![mirror.uri()])].into();
    });
    let feed = Releases::Feed(format!("{}/releases.atom", publisher.uri()));
    let found = newest(&reader.http, "c", &feed, &Version::new(2, 3, 0)).await;
    assert_eq!(found.unwrap().of_all, Version::new(2, 4, 0));
    assert!(mirror.seen("").is_empty());
}

/// The mirror downloads the file itself before it answers, which takes longer than a stalled server may.
#[tokio::test(flavor = "multi_thread")]
async fn first_byte_of_a_mirror_on_demand_may_be_late() {
    let mirror = Origin::start(Rules {
        silent_for: Some(Duration::from_secs(33)),
        ..Rules::default()
    })
    .await;
    mirror.put("/file", "a file");
    let reader = Reader::with(&mirror, |mirrors| mirrors.on_demand = vec![mirror.uri()]);
    reader.download(Some(Digest::of(b"a file"))).await.unwrap();
    assert_eq!(mirror.seen("/file").len(), 1);
}
