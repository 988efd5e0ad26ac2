//! Large files in ranges: several connections, and never other bytes than published.

mod artifacts;
mod credentials;
mod evil_mirror;
mod images;
mod mirrors;
pub mod origin;
mod plugins;
mod program;

use std::path::Path;

use kubexm_bundle::lock::Descriptor;
use kubexm_config::Mirrors;
use kubexm_config::mirrors::Checksums;
use kubexm_fetch::http::{StatedBy, Wanted};
use kubexm_fetch::oci::Puller;
use kubexm_fetch::record::Version;
use kubexm_fetch::{Cache, FetchError, Http};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest};

use origin::{Origin, Rules, Seen};

const MIB: usize = 1024 * 1024;

/// Returns content without equal parts.
fn content(length: usize) -> Vec<u8> {
    let numbers = (0..length.div_ceil(8) as u64).flat_map(u64::to_be_bytes);
    numbers.take(length).collect()
}

/// A client with its cache.
struct Reader {
    http: Http,
    folder: tempfile::TempDir,
}

impl Reader {
    fn of(origin: &Origin) -> Self {
        Self::with(origin, |_| {})
    }

    fn with(origin: &Origin, change: impl FnOnce(&mut Mirrors)) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let to = |from: &str| [(from.to_owned(), vec![origin.uri()])].into();
        let mut mirrors = Mirrors {
            downloads: to("https://dl.invalid"),
            registries: to("registry.invalid"),
            checksums: Checksums::Mirror,
            ..Mirrors::default()
        };
        change(&mut mirrors);
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let http = Http::new(mirrors, cache, Events::silent()).unwrap();
        Self { http, folder }
    }

    async fn download(&self, expected: Option<Digest>) -> Result<(Digest, u64), FetchError> {
        let wanted = Wanted {
            label: "file".into(),
            url: "https://dl.invalid/file".parse().unwrap(),
            expected,
            size: None,
        };
        self.http.download(&wanted).await
    }

    /// Checks that a file is in the cache, and that no partial file is left.
    fn has(&self, content: &[u8]) {
        let digest = Digest::of(content);
        assert!(self.http.cache().read(&digest).unwrap() == content);
        assert_eq!(names(&self.folder.path().join("partial")), [""; 0]);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Returns the number of bytes that were requested in ranges.
fn asked(seen: &[Seen], total: usize) -> usize {
    let length = |seen: &Seen| {
        let range = seen.header("range").strip_prefix("bytes=").unwrap_or("0-");
        let (from, to) = range.split_once('-').unwrap();
        let last = to.parse().unwrap_or(total - 1).min(total - 1);
        last + 1 - from.parse::<usize>().unwrap()
    };
    seen.iter().map(length).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn large_file_is_downloaded_over_several_connections_without_overlap() {
    let origin = Origin::start(Rules {
        rate: Some(5 * MIB),
        ..Rules::default()
    })
    .await;
    let large = content(9 * MIB + 12345);
    origin.put("/file", large.clone());
    let reader = Reader::of(&origin);
    reader.download(Some(Digest::of(&large))).await.unwrap();
    reader.has(&large);
    assert_eq!(asked(&origin.seen("/file"), large.len()), large.len());
    assert_eq!(origin.most_at_once(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_blob_is_downloaded_in_ranges() {
    let origin = Origin::start(Rules::default()).await;
    let layer = content(5 * MIB);
    let digest = Digest::of(&layer);
    let place = format!("/v2/team/app/blobs/{digest}");
    origin.put(&place, layer.clone());
    let reader = Reader::of(&origin);
    let blob = Descriptor {
        media_type: "application/vnd.oci.image.layer.v1.tar+gzip".into(),
        digest,
        size: layer.len() as u64,
    };
    let image = "registry.invalid/team/app:1".parse().unwrap();
    let puller = Puller::new(reader.http.clone());
    puller.blob(&image, &blob).await.unwrap();
    reader.has(&layer);
    let seen = origin.seen(&place);
    assert!(seen.len() > 3, "{seen:?}");
    assert_eq!(asked(&seen, layer.len()), layer.len());
}

/// An image in a test registry: index, manifest, configuration, and a large layer.
fn put_image(origin: &Origin, layer: &[u8]) {
    put_image_at(origin, "team/app", "1", layer);
}

/// Returns the digest of the index.
pub fn put_image_at(origin: &Origin, repository: &str, tag: &str, layer: &[u8]) -> Digest {
    let place = |kind: &str, name: &str| format!("/v2/{repository}/{kind}/{name}");
    let config = br#"{"architecture": "amd64", "os": "linux"}"#;
    for blob in [&config[..], layer] {
        origin.put(&place("blobs", &Digest::of(blob).to_string()), blob);
    }
    let entry = |kind: &str, bytes: &[u8], more: &str| {
        format!(
            r#"{{"mediaType": "application/vnd.oci.image.{kind}", "digest": "{}", "size": {}{more}}}"#,
            Digest::of(bytes),
            bytes.len()
        )
    };
    let manifest = format!(
        r#"{{"schemaVersion": 2, "config": {}, "layers": [{}]}}"#,
        entry("config.v1+json", config, ""),
        entry("layer.v1.tar+gzip", layer, "")
    );
    let platform = r#", "platform": {"os": "linux", "architecture": "amd64"}"#;
    let index = format!(
        r#"{{"schemaVersion": 2, "manifests": [{}]}}"#,
        entry("manifest.v1+json", manifest.as_bytes(), platform)
    );
    let digest = Digest::of(manifest.as_bytes()).to_string();
    origin.put(&place("manifests", &digest), manifest);
    let top = Digest::of(index.as_bytes());
    origin.put(&place("manifests", &top.to_string()), index.clone());
    origin.put(&place("manifests", tag), index);
    top
}

#[tokio::test(flavor = "multi_thread")]
async fn redirected_blob_request_has_no_token_and_is_sent_once() {
    let store = Origin::start(Rules::default()).await;
    let registry = Origin::start(Rules {
        blobs_at: Some(store.uri()),
        // A token for anonymous clients.
        login: Some(String::new()),
        ..Rules::default()
    })
    .await;
    let layer = content(9 * MIB);
    put_image(&store, &layer);
    put_image(&registry, &layer);
    let reader = Reader::of(&registry);
    let image = "registry.invalid/team/app:1".parse().unwrap();
    let puller = Puller::new(reader.http.clone());
    let locked = puller.resolve(&image, &[Arch::Amd64], None).await.unwrap();
    let blob = &locked.platforms[0].blobs[1];
    puller.blob(&image, blob).await.unwrap();
    reader.has(&layer);
    let (sent_on, direct) = (registry.seen(&blob.digest.hex()), store.seen(""));
    let token = |seen: &Seen| seen.header("authorization").starts_with("Bearer ");
    assert!(sent_on.iter().all(token), "{sent_on:?}");
    assert!(
        direct
            .iter()
            .all(|seen| seen.header("authorization").is_empty())
    );
    assert!(
        sent_on.len() < direct.len(),
        "{} {}",
        sent_on.len(),
        direct.len()
    );
}

/// Answers of servers instead of ranges, with and without a digest and an ETag.
#[tokio::test(flavor = "multi_thread")]
async fn whole_file_is_downloaded_without_usable_ranges() {
    let large = content(5 * MIB);
    let digest = Digest::of(&large);
    let tag = Some("\"v1\"".to_owned());
    let weak = Some("W/\"v1\"".to_owned());
    let none = Rules::default();
    for (rules, expected, ranged) in [
        (
            Rules {
                no_ranges: true,
                ..none.clone()
            },
            Some(digest),
            true,
        ),
        (
            Rules {
                no_ranges: true,
                ..none.clone()
            },
            None,
            true,
        ),
        (
            Rules {
                tag: tag.clone(),
                ..none.clone()
            },
            None,
            true,
        ),
        (
            Rules {
                tag: weak,
                ..none.clone()
            },
            None,
            false,
        ),
        (none.clone(), None, false),
        (
            Rules {
                wrong_ranges: true,
                ..none.clone()
            },
            Some(digest),
            false,
        ),
        (
            Rules {
                wrong_ranges: true,
                tag,
                ..none.clone()
            },
            Some(digest),
            false,
        ),
    ] {
        let origin = Origin::start(rules).await;
        origin.put("/file", large.clone());
        let reader = Reader::of(&origin);
        assert_eq!(reader.download(expected).await.unwrap().0, digest);
        reader.has(&large);
        let seen = origin.seen("/file");
        let last = seen.last().unwrap();
        assert_eq!(!last.header("range").is_empty(), ranged, "{seen:?}");
    }
    let origin = Origin::start(none).await;
    origin.put("/file", "");
    let reader = Reader::of(&origin);
    assert_eq!(reader.download(None).await.unwrap(), (Digest::of(b""), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_cause_no_second_download_of_a_byte() {
    let origin = Origin::start(Rules {
        tag: Some("\"v1\"".into()),
        cut_after: Some(600_000),
        ..Rules::default()
    })
    .await;
    let large = content(6 * MIB);
    origin.put("/file", large.clone());
    let reader = Reader::of(&origin);
    reader.download(Some(Digest::of(&large))).await.unwrap();
    reader.has(&large);
    let seen = origin.seen("/file");
    // Each answer had this number of bytes at most.
    assert!(seen.len() >= large.len() / 600_000, "{}", seen.len());
    assert!(seen.len() < 2 * large.len() / 600_000, "{}", seen.len());
    assert!(
        seen[4..]
            .iter()
            .all(|seen| seen.header("if-range") == "\"v1\"")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_changes_during_a_download_is_not_mixed() {
    let (old, new) = (content(5 * MIB), content(6 * MIB)[MIB..].to_vec());
    let origin = Origin::start(Rules {
        tag: Some("\"v2\"".into()),
        ..Rules::default()
    })
    .await;
    origin.put("/file", new.clone());
    let reader = Reader::of(&origin);
    let key = Digest::of(b"https://dl.invalid/file").hex();
    let partial = reader.http.cache().partial(&key).unwrap();
    partial
        .set_version(Version {
            site: Some(format!("{}/file", origin.uri())),
            tag: Some("\"v1\"".into()),
            total: Some(old.len() as u64),
        })
        .unwrap();
    partial.write(0, &old[..MIB]).unwrap();
    partial
        .write(3 * MIB as u64, &old[3 * MIB..4 * MIB])
        .unwrap();
    drop(partial);
    assert_eq!(reader.download(None).await.unwrap().0, Digest::of(&new));
    reader.has(&new);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_with_a_connection_limit_gets_fewer_connections() {
    let origin = Origin::start(Rules {
        at_once: Some(1),
        rate: Some(20 * MIB),
        ..Rules::default()
    })
    .await;
    let large = content(6 * MIB);
    origin.put("/file", large.clone());
    let reader = Reader::of(&origin);
    reader.download(Some(Digest::of(&large))).await.unwrap();
    reader.has(&large);
    let polite = Origin::start(Rules {
        rate: Some(20 * MIB),
        ..Rules::default()
    })
    .await;
    polite.put("/file", large.clone());
    let reader = Reader::with(&polite, |mirrors| mirrors.connections = Some(2));
    reader.download(Some(Digest::of(&large))).await.unwrap();
    reader.has(&large);
    assert_eq!(polite.most_at_once(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_without_the_file_or_with_wrong_bytes_is_skipped() {
    let (empty, liar, good) = (
        Origin::start(Rules::default()).await,
        Origin::start(Rules::default()).await,
        Origin::start(Rules::default()).await,
    );
    liar.put("/file", "another page");
    good.put("/file", "right");
    let reader = Reader::with(&good, |mirrors| {
        let dead = "http://127.0.0.1:1".to_owned();
        let list = vec![dead, empty.uri(), liar.uri(), good.uri()];
        mirrors.downloads.insert("https://dl.invalid".into(), list);
    });
    let digest = Digest::of(b"right");
    assert_eq!(reader.download(Some(digest)).await.unwrap(), (digest, 5));
    assert_eq!(liar.seen("/file").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn checksums_come_from_the_publisher_although_files_are_mirrored() {
    let (publisher, mirror) = (
        Origin::start(Rules::default()).await,
        Origin::start(Rules::default()).await,
    );
    let public: url::Url = format!("{}/sum", publisher.uri()).parse().unwrap();
    mirror.put("/sum", "the mirror's word");
    publisher.put("/sum", "the publisher's word");
    let reader = |checksums| {
        Reader::with(&mirror, |mirrors| {
            mirrors.checksums = checksums;
            let list = vec![mirror.uri()];
            mirrors.downloads = [
                (publisher.uri(), list.clone()),
                ("http://127.0.0.1:1".to_owned(), list),
            ]
            .into();
        })
    };
    let own = reader(Checksums::Origin);
    let word = own.http.published("sum", &public, 99).await.unwrap();
    assert_eq!(word, ("the publisher's word".into(), StatedBy::Publisher));
    let theirs = reader(Checksums::Mirror);
    let word = theirs.http.published("sum", &public, 99).await.unwrap();
    assert_eq!(word, ("the mirror's word".into(), StatedBy::Mirror));
    let gone = "http://127.0.0.1:1/sum".parse().unwrap();
    let error = own.http.published("sum", &gone, 99).await.unwrap_err();
    insta::assert_snapshot!(error.to_string(), @"
    sum: cannot ask the publisher 127.0.0.1:1 for http://127.0.0.1:1/sum: Connection refused (os error 111)
    hint: its mirror is not trusted for this; make 127.0.0.1:1 reachable (HTTPS_PROXY names a proxy), or set `checksums: mirror` in the mirrors file (--mirrors) if you trust the mirror
    ");
    // The publisher does not have the file: the mirror has invented it.
    let made_up = format!("{}/made-up", publisher.uri()).parse().unwrap();
    mirror.put("/made-up", "the mirror's word");
    assert!(own.http.published("sum", &made_up, 99).await.is_err());
}
