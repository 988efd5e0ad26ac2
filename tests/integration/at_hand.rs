//! Local bundles: their blobs are not requested from a server, and damaged ones are downloaded.

use std::path::Path;

use kubexm_bundle::lock::Descriptor;
use kubexm_bundle::{Bundle, Level, PackOptions};
use kubexm_config::Mirrors;
use kubexm_fetch::http::Wanted;
use kubexm_fetch::oci::Puller;
use kubexm_fetch::{Cache, Http};
use kubexm_types::event::Events;
use kubexm_types::{Digest, ImageRef};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::example::{example, text, write_plain};

struct Site {
    server: MockServer,
    http: Http,
    folder: tempfile::TempDir,
}

impl Site {
    /// Starts a server that answers every request with `content`, with a local bundle.
    async fn with_local_bundle(bundle: &Path, content: &[u8]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = MockServer::start().await;
        let answer = ResponseTemplate::new(200).set_body_bytes(content);
        Mock::given(any()).respond_with(answer).mount(&server).await;
        let to = |from: &str| [(from.to_owned(), vec![server.uri()])].into();
        let mirrors = Mirrors {
            downloads: to("https://dl.example"),
            registries: to("registry.example"),
            ..Mirrors::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let http = Http::new(mirrors, cache, Events::silent()).unwrap();
        let http = http.with_local_bundles(vec![Bundle::open(bundle).unwrap()]);
        Self {
            server,
            http,
            folder,
        }
    }

    /// Downloads content as a file. Returns the number of requests.
    async fn file(&self, content: &[u8]) -> usize {
        let digest = Digest::of(content);
        let wanted = Wanted {
            label: "file".into(),
            url: "https://dl.example/file".parse().unwrap(),
            expected: Some(digest),
            size: None,
        };
        let got = self.http.download(&wanted).await.unwrap();
        assert_eq!(got, (digest, content.len() as u64));
        self.requests(content).await
    }

    /// Downloads content as a blob of an image. Returns the number of requests.
    async fn layer(&self, content: &[u8]) -> usize {
        let puller = Puller::new(self.http.clone());
        let name: ImageRef = "registry.example/team/app:1".parse().unwrap();
        let blob = Descriptor {
            media_type: String::new(),
            digest: Digest::of(content),
            size: content.len() as u64,
        };
        puller.blob(&name, &blob).await.unwrap();
        self.requests(content).await
    }

    async fn requests(&self, content: &[u8]) -> usize {
        let cached = self.http.cache().read(&Digest::of(content)).unwrap();
        assert!(cached == content, "in the cache");
        let partial = self.folder.path().join("partial");
        assert_eq!(std::fs::read_dir(partial).unwrap().count(), 0);
        let requests = self.server.received_requests().await.unwrap().len();
        self.server.reset().await;
        requests
    }
}

fn contents() -> Vec<Vec<u8>> {
    (0..3).map(|seed| text(seed, 50_000)).collect()
}

fn bundle(path: &Path) {
    let (lock, blobs) = example(&contents());
    write_plain(path, &lock, &blobs, PackOptions::new(Level::FAST, 1)).unwrap();
}

#[tokio::test]
async fn blob_of_a_local_bundle_is_not_requested_from_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base.tar.zst");
    bundle(&path);
    let missing = text(9, 50_000);
    let site = Site::with_local_bundle(&path, &missing).await;
    assert!(site.file(&missing).await > 0, "the server counts");
    for (content, as_layer) in contents().iter().zip([false, true, false]) {
        let requests = if as_layer {
            site.layer(content).await
        } else {
            site.file(content).await
        };
        assert_eq!(requests, 0);
    }
}

#[tokio::test]
async fn damaged_blob_of_a_local_bundle_is_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base.tar.zst");
    bundle(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    // After the header, in the content of a blob.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&path, bytes).unwrap();
    let mut asked = 0;
    for content in contents() {
        let site = Site::with_local_bundle(&path, &content).await;
        asked += usize::from(site.file(&content).await > 0);
    }
    assert_eq!(asked, 1, "just the one that is damaged");
}
