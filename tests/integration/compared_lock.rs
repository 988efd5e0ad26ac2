//! An online build compares the entries of an existing lock with their publishers.

use kubexm_bundle::Lock;
use kubexm_bundle::lock::ChecksumSource;
use kubexm_catalog::Catalog;
use kubexm_config::mirrors::Checksums;
use kubexm_config::{Mirrors, load_manifest};
use kubexm_fetch::resolve::{LockComparison, Resolver};
use kubexm_fetch::signatures::Policies;
use kubexm_fetch::{Cache, Http};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest, Version};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::example::example;

const PROGRAMS: [&str; 3] = ["kubeadm", "kubectl", "kubelet"];
const IMAGE: &str = "registry.example/team/app:1";

struct Site {
    server: MockServer,
    folder: tempfile::TempDir,
    http: Http,
}

impl Site {
    /// Starts a server that stands for dl.k8s.io and for registry.example.
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = MockServer::start().await;
        let folder = tempfile::tempdir().unwrap();
        let to = |from: &str| [(from.to_owned(), vec![server.uri()])].into();
        let mirrors = Mirrors {
            downloads: to("https://dl.k8s.io"),
            registries: to("registry.example"),
            checksums: Checksums::Mirror,
            ..Mirrors::default()
        };
        let cache = Cache::open(&folder.path().join("cache")).unwrap();
        let http = Http::new(mirrors, cache, Events::silent()).unwrap();
        Self {
            server,
            folder,
            http,
        }
    }

    async fn serves(&self, place: String, body: String) {
        Mock::given(method("GET"))
            .and(path(place))
            .respond_with(ResponseTemplate::new(200).set_body_string(body))
            .mount(&self.server)
            .await;
    }

    /// Publishes the checksums of the programs, whose content is their name.
    async fn publishes_checksums(&self) {
        for name in PROGRAMS {
            let place = format!("/release/v1.36.3/bin/linux/amd64/{name}.sha256");
            self.serves(place, Digest::of(name.as_bytes()).hex()).await;
        }
    }

    async fn compare(&self, previous: &Lock) -> LockComparison {
        let manifest = self.folder.path().join("manifest.yaml");
        let text = "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {name: m}\nspec:\n  \
                    architectures: [amd64]\n  kubernetes: {versions: [\"1.36.3\"]}\n";
        std::fs::write(&manifest, text).unwrap();
        let manifest = load_manifest(&manifest).unwrap();
        let catalog = Catalog::embedded().unwrap();
        let policies = Policies::load(&catalog, &[], &[]).unwrap();
        let resolver = Resolver::new(&self.http, &catalog, Some(previous), &policies);
        let mut found = resolver.compare_files(&manifest).await.unwrap();
        let images = resolver.compare_images(previous).await.unwrap();
        found.changed.extend(images.changed);
        found.not_compared.extend(images.not_compared);
        found
    }
}

/// Returns a lock with the programs.
fn lock() -> Lock {
    let contents = PROGRAMS.map(|name| name.as_bytes().to_vec());
    let (mut lock, _) = example(&contents);
    let catalog = Catalog::embedded().unwrap();
    for (file, name) in lock.files.iter_mut().zip(PROGRAMS) {
        let version = Version::new(1, 36, 3);
        let download = catalog.download(name, &version, Arch::Amd64);
        let download = download.unwrap().unwrap();
        file.component = name.to_owned();
        file.version = version;
        file.url = download.url;
        file.checksum = ChecksumSource::Published(download.checksum.unwrap());
    }
    lock.sort();
    lock
}

#[tokio::test]
async fn edited_digest_of_a_file_differs_from_its_publisher() {
    let site = Site::start().await;
    site.publishes_checksums().await;
    assert_eq!(site.compare(&lock()).await, LockComparison::default());

    let mut edited = lock();
    edited.files[0].digest = Digest::of(b"a program of the editor");
    let found = site.compare(&edited).await;
    let changed: Vec<_> = found.changed.iter().map(|entry| &*entry.item).collect();
    assert_eq!(changed, ["kubeadm 1.36.3 amd64"]);
    assert_eq!(found.changed[0].published, Digest::of(b"kubeadm"));
    assert!(found.not_compared.is_empty());
}

#[tokio::test]
async fn edited_digest_of_an_image_differs_from_its_tag() {
    let site = Site::start().await;
    let manifest = |size: u32| {
        format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{}","size":{size}}},"layers":[]}}"#,
            Digest::of(b"{}")
        )
    };
    let image = |text: &str| {
        let (mut lock, _) = example(&[]);
        let descriptor = kubexm_bundle::lock::Descriptor {
            media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
            digest: Digest::of(text.as_bytes()),
            size: text.len() as u64,
        };
        lock.images = vec![crate::example::image(IMAGE, descriptor)];
        lock.sort();
        lock
    };
    site.serves("/v2/team/app/manifests/1".to_owned(), manifest(2))
        .await;
    let same = site.compare(&image(&manifest(2))).await;
    assert_eq!(same, LockComparison::default());
    let found = site.compare(&image(&manifest(3))).await;
    assert_eq!(found.changed.len(), 1, "{found:?}");
    assert_eq!(found.changed[0].item, IMAGE);
}

#[tokio::test]
async fn publisher_without_an_answer_is_named_once() {
    let site = Site::start().await;
    let found = site.compare(&lock()).await;
    assert!(found.changed.is_empty());
    assert_eq!(found.not_compared.len(), 1, "{found:?}");
    assert!(
        found.not_compared[0].starts_with("dl.k8s.io: "),
        "{found:?}"
    );
    // The other programs are not requested after the first one got no answer.
    assert_eq!(site.server.received_requests().await.unwrap().len(), 1);
}
