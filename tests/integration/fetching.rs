//! Servers that fail: each failure is one clear error, and no wrong bytes are cached.

use crate::locks;
use kubexm_bundle::lock::Descriptor;
use kubexm_config::Mirrors;
use kubexm_config::mirrors::Checksums;
use kubexm_fetch::http::Wanted;
use kubexm_fetch::oci::Puller;
use kubexm_fetch::record::Version;
use kubexm_fetch::{Cache, FetchError, Http};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest, ImageRef};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const CONTENT: &[u8] = b"what the publisher published";

struct Site {
    server: MockServer,
    http: Http,
    folder: tempfile::TempDir,
}

impl Site {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = MockServer::start().await;
        let folder = tempfile::tempdir().unwrap();
        let to = |from: &str| [(from.to_owned(), vec![server.uri()])].into();
        let mirrors = Mirrors {
            downloads: to("https://dl.example"),
            registries: to("registry.example"),
            checksums: Checksums::Mirror,
            ..Mirrors::default()
        };
        let cache = Cache::open(folder.path()).unwrap();
        let http = Http::new(mirrors, cache, Events::silent()).unwrap();
        Self {
            server,
            http,
            folder,
        }
    }

    async fn answers(&self, place: &str, response: ResponseTemplate) {
        Mock::given(method("GET"))
            .and(path(place))
            .respond_with(response)
            .mount(&self.server)
            .await;
    }

    async fn download(&self, expected: Option<Digest>) -> Result<(Digest, u64), FetchError> {
        let url = "https://dl.example/file".parse().unwrap();
        self.http
            .download(&Wanted {
                label: "file".into(),
                url,
                expected,
                size: None,
            })
            .await
    }

    async fn resolve(
        &self,
        digest: Option<Digest>,
    ) -> Result<kubexm_bundle::lock::LockedImage, FetchError> {
        let puller = Puller::new(self.http.clone());
        puller.resolve(&image(), &[Arch::Amd64], digest).await
    }

    /// Returns the files under their final names.
    fn blobs(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("blobs/sha256"))
            .unwrap()
            .count()
    }
}

fn image() -> ImageRef {
    "registry.example/team/app:1".parse().unwrap()
}

fn descriptor(content: &[u8]) -> Descriptor {
    Descriptor {
        media_type: "application/vnd.oci.image.layer.v1.tar+gzip".into(),
        digest: Digest::of(content),
        size: content.len() as u64,
    }
}

#[tokio::test]
async fn mirrored_file_is_cached_by_its_digest() {
    let site = Site::start().await;
    site.answers("/file", ResponseTemplate::new(200).set_body_bytes(CONTENT))
        .await;
    let (digest, size) = site.download(Some(Digest::of(CONTENT))).await.unwrap();
    assert_eq!((digest, size), (Digest::of(CONTENT), CONTENT.len() as u64));
    assert_eq!(site.http.cache().read(&digest).unwrap(), CONTENT);
}

#[tokio::test]
async fn wrong_checksum_is_reported_and_nothing_is_cached() {
    let site = Site::start().await;
    site.answers(
        "/file",
        ResponseTemplate::new(200).set_body_bytes(&b"an error page"[..]),
    )
    .await;
    let error = site.download(Some(Digest::of(CONTENT))).await.unwrap_err();
    let printed = error.to_string();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    file: http://127.0.0.1:[port]/file returned content with the wrong digest; it was discarded
      expected sha256:2c146302731b4a45e3f4fcb635428d72fc96e9b24ec2af771d3e2b2c33639099
      got      sha256:afcdaf6e4c147311d2dcdbd839cf3d254aabd090926147fa99f66f878e036c97
    hint: a mirror or proxy may serve a damaged copy; try another one
    ");
    assert_eq!(site.blobs(), 0);
    assert_eq!(
        std::fs::read_dir(site.folder.path().join("partial"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn interrupted_download_continues_if_the_file_is_unchanged() {
    let site = Site::start().await;
    let digest = Digest::of(CONTENT);
    left_behind(&site, &digest.hex(), &CONTENT[..10], Some("\"v1\""));
    Mock::given(method("GET"))
        .and(path("/file"))
        .and(header("range", "bytes=10-"))
        .and(header("if-range", "\"v1\""))
        .respond_with(
            ResponseTemplate::new(206)
                .insert_header("etag", "\"v1\"")
                .insert_header("content-range", "bytes 10-27/28")
                .set_body_bytes(&CONTENT[10..]),
        )
        .expect(1)
        .mount(&site.server)
        .await;
    assert_eq!(site.download(Some(digest)).await.unwrap().0, digest);
}

#[tokio::test]
async fn download_without_ranges_starts_again() {
    let site = Site::start().await;
    let digest = Digest::of(CONTENT);
    left_behind(&site, &digest.hex(), b"an older version", Some("\"v0\""));
    site.answers("/file", ResponseTemplate::new(200).set_body_bytes(CONTENT))
        .await;
    assert_eq!(site.download(Some(digest)).await.unwrap().0, digest);
}

#[tokio::test]
async fn http_refusals_are_explained() {
    let mut all = String::new();
    for status in [404, 403, 401] {
        let site = Site::start().await;
        site.answers("/file", ResponseTemplate::new(status)).await;
        all += &format!("{}\n", site.download(None).await.unwrap_err());
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @"
    file: http://127.0.0.1:[port]/file answered 404
    hint: check that this version exists in the project's releases
    file: http://127.0.0.1:[port]/file answered 403
    hint: check that this network has access; kubexm sends no credentials to this server
    file: http://127.0.0.1:[port]/file answered 401
    hint: check that this network has access; kubexm sends no credentials to this server
    ");
}

#[tokio::test]
async fn busy_server_is_asked_again_after_retry_after() {
    let site = Site::start().await;
    Mock::given(path("/file"))
        .respond_with(ResponseTemplate::new(429).insert_header("retry-after", "0"))
        .up_to_n_times(2)
        .mount(&site.server)
        .await;
    site.answers("/file", ResponseTemplate::new(200).set_body_bytes(CONTENT))
        .await;
    assert!(site.download(Some(Digest::of(CONTENT))).await.is_ok());
}

#[tokio::test]
async fn busy_registry_is_not_asked_again_before_retry_after() {
    let site = Site::start().await;
    let blob = descriptor(CONTENT);
    let place = format!("/v2/team/app/blobs/{}", blob.digest);
    for status in [429, 503] {
        Mock::given(path(&place))
            .respond_with(ResponseTemplate::new(status).insert_header("retry-after", "1"))
            .up_to_n_times(1)
            .mount(&site.server)
            .await;
    }
    site.answers(&place, ResponseTemplate::new(200).set_body_bytes(CONTENT))
        .await;
    let puller = Puller::new(site.http.clone());
    let began = std::time::Instant::now();
    puller.blob(&image(), &blob).await.unwrap();
    assert!(began.elapsed() >= std::time::Duration::from_secs(2));
}

#[tokio::test]
async fn retry_after_of_hours_fails_without_waiting() {
    let site = Site::start().await;
    let busy = ResponseTemplate::new(429).insert_header("retry-after", "7200");
    let _filters = crate::snapshots::filters();
    site.answers("/file", busy).await;
    for _ in 0..2 {
        let printed = site.download(None).await.unwrap_err().to_string();
        insta::allow_duplicates!(insta::assert_snapshot!(printed, @"
            file: http://127.0.0.1:[port]/file answered 429
            hint: too many requests: wait, or use a mirror (--mirrors); the server asks to wait 7200 s
            "));
    }
    assert_eq!(site.server.received_requests().await.unwrap().len(), 2);
}

#[tokio::test]
async fn unresolvable_host_name_is_one_message() {
    let site = Site::start().await;
    let url = "http://no-such-host.invalid/file".parse().unwrap();
    let wanted = Wanted {
        label: "file".into(),
        url,
        expected: None,
        size: None,
    };
    let printed = site.http.download(&wanted).await.unwrap_err().to_string();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    file: cannot reach http://no-such-host.invalid/file: failed to lookup address information: [reason]
    hint: check the name server, the network and the proxy (HTTPS_PROXY names one), then run the same command again
    ");
}

#[tokio::test]
async fn server_without_tls_is_named_with_the_way_to_use_it() {
    let site = Site::start().await;
    let url = site.server.uri().replace("http://", "https://") + "/file";
    let wanted = Wanted {
        label: "file".into(),
        url: url.parse().unwrap(),
        expected: None,
        size: None,
    };
    let printed = site.http.download(&wanted).await.unwrap_err().to_string();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    file: cannot reach https://127.0.0.1:[port]/file: the server answers without TLS
    hint: if it is one of your site, name it with http:// in a mirror file (--mirrors): kubexm then uses no encryption
    ");
}

#[tokio::test]
async fn registry_blob_with_another_digest_is_refused() {
    let site = Site::start().await;
    let manifest = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;
    let wrong = Digest::of(b"another manifest");
    let place = format!("/v2/team/app/manifests/{wrong}");
    site.answers(
        &place,
        ResponseTemplate::new(200)
            .set_body_raw(manifest, "application/vnd.oci.image.index.v1+json"),
    )
    .await;
    let error = site.resolve(Some(wrong)).await.unwrap_err();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(error, @"
    registry.example/team/app:1: http://127.0.0.1:[port]/v2/team/app/manifests/sha256:e7b0c7ca59efa17fc92e5aafb66a8109dd8bac6baf3db6e56c926dfa263ec1ea returned content with the wrong digest; it was discarded
      expected sha256:e7b0c7ca59efa17fc92e5aafb66a8109dd8bac6baf3db6e56c926dfa263ec1ea
      got      sha256:dff9de10919148711140d349bf03f1a99eb06f94b03e51715ccebfa7cdc518e2
    hint: a mirror or proxy may serve a damaged copy; try another one
    ");
    assert_eq!(site.blobs(), 0);
}

#[tokio::test]
async fn image_without_the_platform_lists_its_platforms() {
    let site = Site::start().await;
    let manifest = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{}","size":2,"platform":{{"os":"linux","architecture":"s390x"}}}}]}}"#,
        Digest::of(b"{}")
    );
    let kind = "application/vnd.oci.image.index.v1+json";
    site.answers(
        "/v2/team/app/manifests/1",
        ResponseTemplate::new(200).set_body_raw(manifest, kind),
    )
    .await;
    let printed = site.resolve(None).await.unwrap_err().to_string();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    registry.example/team/app:1: has no linux/amd64; it has linux/s390x
    hint: choose an image for this architecture, or leave the architecture out of spec.architectures
    ");
}

#[tokio::test]
async fn image_without_index_has_one_architecture() {
    let site = Site::start().await;
    let config = br#"{"os":"linux","architecture":"amd64"}"#;
    let digest = Digest::of(config);
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{digest}","size":{}}},"layers":[]}}"#,
        config.len()
    );
    let ok = |body: &[u8]| ResponseTemplate::new(200).set_body_bytes(body.to_vec());
    site.answers("/v2/team/app/manifests/1", ok(manifest.as_bytes()))
        .await;
    site.answers(&format!("/v2/team/app/blobs/{digest}"), ok(config))
        .await;
    let puller = Puller::new(site.http.clone());
    let both = [Arch::Amd64, Arch::Arm64];
    let error = puller.resolve(&image(), &both, None).await.unwrap_err();
    let printed = error.to_string();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    registry.example/team/app:1: has no linux/arm64; it has linux/amd64
    hint: choose an image for this architecture, or leave the architecture out of spec.architectures
    ");
    let locked = puller.resolve(&image(), &both[..1], None).await.unwrap();
    assert_eq!(locked.platforms[0].manifest, locked.manifest);
}

#[tokio::test]
async fn missing_image_and_failing_registry_are_different_errors() {
    let mut all = String::new();
    for status in [404, 500, 401] {
        let site = Site::start().await;
        let body = r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#;
        site.answers(
            "/v2/team/app/manifests/1",
            ResponseTemplate::new(status).set_body_string(body),
        )
        .await;
        all += &format!("{}\n", site.resolve(None).await.unwrap_err());
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @"
    registry.example/team/app:1: http://127.0.0.1:[port]/v2/team/app/manifests/1 answered 404
    hint: check that the image and the tag exist (registry: manifest unknown)
    registry.example/team/app:1: http://127.0.0.1:[port]/v2/team/app/manifests/1 answered 500
    hint: the registry failed: try later, or use a mirror (--mirrors) (registry: manifest unknown)
    registry.example/team/app:1: http://127.0.0.1:[port]/ answered 401
    hint: check the image's name, or log in with `docker login` (kubexm has no login for it)
    ");
}

#[tokio::test]
async fn partial_blob_is_kept_and_never_published() {
    let site = Site::start().await;
    let digest = Digest::of(CONTENT);
    site.answers(
        &format!("/v2/team/app/blobs/{digest}"),
        ResponseTemplate::new(200).set_body_bytes(&CONTENT[..9]),
    )
    .await;
    let blob = descriptor(CONTENT);
    let puller = Puller::new(site.http.clone());
    assert!(puller.blob(&image(), &blob).await.is_err());
    assert_eq!(site.blobs(), 0);
}

/// Writes a partial file with the first bytes of the content, as a killed run leaves it.
fn left_behind(site: &Site, key: &str, bytes: &[u8], tag: Option<&str>) {
    let partial = site.http.cache().partial(key).unwrap();
    let version = Version {
        site: Some(format!("{}/file", site.server.uri())),
        tag: tag.map(str::to_owned),
        total: None,
    };
    partial.set_version(version).unwrap();
    partial.append(bytes).unwrap();
}

/// Waits until another download waits for the lock of a partial file.
async fn until_awaited(site: &Site, digest: &Digest) {
    let partial = site.folder.path().join("partial").join(digest.hex());
    for _ in 0..6000 {
        if locks::is_awaited(&partial) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no download waits for the lock after 60 seconds");
}

#[tokio::test]
async fn download_that_waited_for_a_lock_leaves_the_published_blob_unchanged() {
    let site = Site::start().await;
    let digest = Digest::of(CONTENT);
    let cache = site.http.cache().clone();
    let first = cache.partial(&digest.hex()).unwrap();
    first.append(CONTENT).unwrap();
    let (waiting, key) = (cache.clone(), digest.hex());
    let second = std::thread::spawn(move || {
        let partial = waiting.partial(&key).unwrap();
        partial.restart().unwrap();
        partial.length()
    });
    until_awaited(&site, &digest).await;
    first.publish(Some(&digest)).unwrap().unwrap();
    assert_eq!(second.join().unwrap(), 0);
    assert_eq!(cache.read(&digest).unwrap(), CONTENT);
}

#[tokio::test]
async fn blob_that_another_process_published_is_not_downloaded_again() {
    let site = Site::start().await;
    let digest = Digest::of(CONTENT);
    let first = site.http.cache().partial(&digest.hex()).unwrap();
    first.append(CONTENT).unwrap();
    let publish = async {
        until_awaited(&site, &digest).await;
        first.publish(Some(&digest)).unwrap().unwrap();
    };
    let (second, ()) = tokio::join!(site.download(Some(digest)), publish);
    assert_eq!(second.unwrap(), (digest, CONTENT.len() as u64));
    assert_eq!(site.server.received_requests().await.unwrap().len(), 0);
    let partial = site.folder.path().join("partial");
    assert_eq!(std::fs::read_dir(partial).unwrap().count(), 0);
}

#[tokio::test]
async fn complete_partial_file_needs_no_request() {
    let site = Site::start().await;
    let digest = Digest::of(CONTENT);
    left_behind(&site, &digest.hex(), CONTENT, Some("\"v1\""));
    assert_eq!(site.download(Some(digest)).await.unwrap().0, digest);
    let blob = descriptor(CONTENT);
    let puller = Puller::new(site.http.clone());
    std::fs::remove_file(site.http.cache().path(&digest)).unwrap();
    left_behind(&site, &digest.hex(), CONTENT, None);
    puller.blob(&image(), &blob).await.unwrap();
    assert_eq!(site.http.cache().read(&digest).unwrap(), CONTENT);
    assert_eq!(site.server.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn unsatisfiable_range_restarts_the_download() {
    for expected in [None, Some(Digest::of(CONTENT))] {
        let site = Site::start().await;
        let url = Digest::of(b"https://dl.example/file").hex();
        let key = expected.map_or(url, |digest| digest.hex());
        let mut longer = CONTENT.to_vec();
        longer.resize(CONTENT.len() + usize::from(expected.is_some()), 0);
        left_behind(&site, &key, &longer, Some("\"v1\""));
        Mock::given(method("GET"))
            .and(wiremock::matchers::header_exists("range"))
            .respond_with(ResponseTemplate::new(416))
            .expect(1)
            .with_priority(1)
            .mount(&site.server)
            .await;
        site.answers("/file", ResponseTemplate::new(200).set_body_bytes(CONTENT))
            .await;
        assert_eq!(
            site.download(expected).await.unwrap().0,
            Digest::of(CONTENT)
        );
    }
}

#[tokio::test]
async fn registry_without_ranges_is_asked_for_the_whole_blob() {
    let envelope = r#"{"errors":[{"code":"UNSUPPORTED","message":"no ranges here"}]}"#;
    for body in ["", envelope] {
        let site = Site::start().await;
        let blob = descriptor(CONTENT);
        left_behind(&site, &blob.digest.hex(), &CONTENT[..9], None);
        let place = format!("/v2/team/app/blobs/{}", blob.digest);
        Mock::given(header("range", "bytes=9-"))
            .respond_with(ResponseTemplate::new(416).set_body_string(body))
            .expect(1)
            .with_priority(1)
            .mount(&site.server)
            .await;
        site.answers(&place, ResponseTemplate::new(200).set_body_bytes(CONTENT))
            .await;
        let puller = Puller::new(site.http.clone());
        puller.blob(&image(), &blob).await.unwrap();
        assert_eq!(site.http.cache().read(&blob.digest).unwrap(), CONTENT);
    }
}
