//! Charts and manifests of the user: their sources, and what manifests and locks may contain.

use std::collections::BTreeMap;

use kubexm_bundle::lock::ChecksumSource;
use kubexm_config::Mirrors;
use kubexm_config::mirrors::Checksums;
use kubexm_config::parse_manifest;
use kubexm_fetch::Http;
use kubexm_fetch::artifacts::ArtifactFetcher;
use kubexm_types::artifact::{ArtifactKind, ArtifactLocation, ArtifactSource};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

/// Answers requests for this path.
pub async fn answer(server: &MockServer, place: &str, content: Vec<u8>, kind: &str) {
    let response = ResponseTemplate::new(200).set_body_raw(content, kind);
    let asked = Mock::given(method("GET")).and(path(place));
    asked.respond_with(response).mount(server).await;
}

/// Returns a packed chart that runs `JOB` when rendered, with its images in its values.
pub fn chart() -> Vec<u8> {
    let files = [
        (
            "own/Chart.yaml",
            "apiVersion: v2\nname: own\nversion: 0.3.1\nappVersion: \"2.0\"\n",
        ),
        (
            "own/values.yaml",
            "image: {repository: apps.example/team/job, tag: \"\"}\nother: {image: docker.io/x/y:7}\n",
        ),
        (
            "own/templates/job.yaml",
            "spec:\n  containers:\n  - image: \"{{ .Values.image.repository }}\"\n",
        ),
    ];
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, content.as_bytes())
            .unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

#[tokio::test]
async fn charts_are_downloaded_from_helm_repositories_and_registries() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = MockServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let digest = Digest::of(&chart());
    let index = |digest: &str| {
        format!(
            "apiVersion: v1\nentries:\n  own:\n  - {{version: 0.3.1, digest: {digest}, urls: [files/own-0.3.1.tgz]}}\n  - {{version: 0.3.0, urls: [x]}}\n  moved:\n  - {{version: 0.3.1, digest: {digest}, urls: [\"oci://registry.example/team/own\"]}}\n"
        )
    };
    answer(
        &server,
        "/charts/index.yaml",
        index(&digest.hex()).into_bytes(),
        "text/yaml",
    )
    .await;
    answer(
        &server,
        "/lying/index.yaml",
        index(&"0".repeat(64)).into_bytes(),
        "text/yaml",
    )
    .await;
    for base in ["charts", "lying"] {
        answer(
            &server,
            &format!("/{base}/files/own-0.3.1.tgz"),
            chart(),
            "x/y",
        )
        .await;
    }
    let kind = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let manifest = json!({"schemaVersion": 2, "mediaType": format!("{OCI}.manifest.v1+json"),
        "layers": [{"mediaType": kind, "digest": digest, "size": chart().len()}]});
    let oci = format!("{OCI}.manifest.v1+json");
    answer(
        &server,
        "/v2/team/own/manifests/0.3.1",
        manifest.to_string().into_bytes(),
        &oci,
    )
    .await;
    answer(
        &server,
        &format!("/v2/team/own/blobs/{digest}"),
        chart(),
        "x/y",
    )
    .await;

    let mut mirrors = Mirrors {
        checksums: Checksums::Mirror,
        ..Mirrors::default()
    };
    mirrors
        .downloads
        .insert("https://dl.example".into(), vec![server.uri()]);
    mirrors
        .registries
        .insert("registry.example".into(), vec![server.uri()]);
    let gather = |source: ArtifactSource, cache: &str| {
        let cache = Cache::open(&folder.path().join(cache)).unwrap();
        let http = Http::new(mirrors.clone(), cache, Events::silent()).unwrap();
        async move {
            let fetcher = ArtifactFetcher {
                http: &http,
                previous: None,
                kubernetes: None,
                renderers: Default::default(),
                values: &BTreeMap::new(),
                paths: &[],
            };
            fetcher
                .fetch(&source)
                .await
                .map_err(|error| error.to_string())
        }
    };
    let repository = |base: &str, version: &str| ArtifactLocation::Repository {
        url: format!("https://dl.example/{base}").parse().unwrap(),
        chart: "own".into(),
        version: version.into(),
    };
    let chart = |place| ArtifactSource::new(ArtifactKind::Chart, place);
    let got = gather(chart(repository("charts", "0.3.1")), "a")
        .await
        .unwrap()
        .artifact;
    assert_eq!(
        (got.digest, got.file_name().as_str()),
        (digest, "own-0.3.1.tgz")
    );
    assert!(
        matches!(&got.checksum, ChecksumSource::Mirror(url) if url.path() == "/charts/index.yaml")
    );
    assert_eq!(
        got.url.unwrap().as_str(),
        "https://dl.example/charts/files/own-0.3.1.tgz"
    );
    let error = gather(chart(repository("lying", "0.3.1")), "b")
        .await
        .unwrap_err();
    let digest_of = |error: String| error.replace(&digest.hex(), "[digest of the chart]");
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(digest_of(error), @"
    own-0.3.1.tgz: http://127.0.0.1:[port]/lying/files/own-0.3.1.tgz returned content with the wrong digest; it was discarded
      expected sha256:0000000000000000000000000000000000000000000000000000000000000000
      got      sha256:[digest of the chart]
    hint: a mirror or proxy may serve a damaged copy; try another one
    ");
    let error = gather(chart(repository("charts", "9.9.9")), "a")
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @"https://dl.example/charts: has no own 9.9.9; it has 0.3.1, 0.3.0");
    let place = ArtifactLocation::parse("oci://registry.example/team/own:0.3.1").unwrap();
    let got = gather(chart(place.clone()), "c").await.unwrap().artifact;
    assert_eq!(got.digest, digest);
    // Its index stays, and names the chart in a registry.
    let moved = |base: &str| ArtifactLocation::Repository {
        url: format!("https://dl.example/{base}").parse().unwrap(),
        chart: "moved".into(),
        version: "0.3.1".into(),
    };
    let got = gather(chart(moved("charts")), "d").await.unwrap().artifact;
    assert_eq!(got.digest, digest);
    assert!(
        matches!(&got.checksum, ChecksumSource::Mirror(url) if url.path() == "/charts/index.yaml")
    );
    let error = gather(chart(moved("lying")), "d").await.unwrap_err();
    assert!(
        error.contains("returned content with the wrong digest"),
        "{error}"
    );
    let pinned = ArtifactSource {
        sha256: Some(Digest::of(b"other")),
        ..chart(place)
    };
    let error = gather(pinned, "c").await.unwrap_err();
    insta::assert_snapshot!(digest_of(error), @"
    registry.example/team/own:0.3.1: oci://registry.example/team/own:0.3.1 returned content with the wrong digest; it was discarded
      expected sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa
      got      sha256:[digest of the chart]
    hint: a mirror or proxy may serve a damaged copy; try another one
    ");
}

#[test]
fn manifest_names_the_source_of_each_artifact() {
    let head = "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {name: b}\nspec:\n  architectures: [amd64]\n  kubernetes: {versions: [\"1.36.3\"]}\n";
    let read = |more: &str| parse_manifest("m", &format!("{head}{more}"));
    let manifest = read(
        "  files: [{name: a, path: x/a}, {name: b, url: \"https://dl.example/b\", sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}]\n  charts:\n  - {repository: \"https://c.example\", name: c, version: 1.2.3, values: [v.yaml]}\n  - {url: \"oci://registry.example/d:1\"}\n  manifests: [e.yaml]\n",
    );
    let own = manifest.unwrap().artifacts;
    assert_eq!(own.len(), 5);
    assert_eq!(own[1].sha256, Some(Digest::of(b"")));
    assert!(
        matches!(&own[2].location, ArtifactLocation::Repository { version, .. } if version == "1.2.3")
    );
    assert_eq!(own[4].kind, ArtifactKind::Manifest);
    let mut all = String::new();
    for more in [
        "  files: [{name: a}]\n",
        "  files: [{name: a, path: b, url: \"https://x.example\"}]\n",
        "  charts: [{repository: \"https://c.example\", name: c}]\n",
        "  charts: [{url: \"ftp://c.example/c\"}]\n",
        "  manifests: [\"https://u:p@x.example/y\"]\n",
    ] {
        let error = read(more).unwrap_err().to_string();
        assert!(!error.contains("u:p"), "{error}");
        all += &format!("=== {}\n{error}\n", more.trim());
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @r#"
    === files: [{name: a}]
    m:7:11: spec.files[0]: expected exactly one location
      hint: give a path or a url
    === files: [{name: a, path: b, url: "https://x.example"}]
    m:7:11: spec.files[0]: expected exactly one location
      hint: give a path or a url
    === charts: [{repository: "https://c.example", name: c}]
    m:7:12: spec.charts[0]: expected exactly one location
      hint: give a path, a url, or repository with name and version
    === charts: [{url: "ftp://c.example/c"}]
    m:7:12: spec.charts[0]: expected exactly one location
      hint: give a path, a url, or repository with name and version
    m:7:18: spec.charts[0].url: address 'ftp://c.example/c': expected https://, http:// or a path; oci:// for charts
      hint: `kubexm config schema bundle` describes every field
    === manifests: ["https://u:p@x.example/y"]
    m:7:15: spec.manifests[0]: address 'https://x.example/y': contains a user or password, which would be written into the lock
      hint: `kubexm config schema bundle` describes every field
    "#);
}

#[test]
fn lock_with_unsafe_or_duplicate_file_names_is_refused() {
    let (mut lock, _) = example(&[b"x".to_vec()]);
    let text = "{kind: file, name: NAME, size: 1, digest: DIGEST, checksum: firstSeen}";
    let own = |name: &str| {
        let text = text
            .replace("NAME", name)
            .replace("DIGEST", &Digest::of(b"x").to_string());
        serde_saphyr::from_str::<kubexm_bundle::lock::user_content::LockedArtifact>(&text).unwrap()
    };
    let read = |lock: &Lock| Lock::from_yaml(&serde_saphyr::to_string(lock).unwrap());
    lock.artifacts = vec![own("fine"), own("also")];
    assert!(read(&lock).is_ok());
    for wrong in [
        vec![own("'../up'")],
        vec![own("'a b'")],
        vec![own("same"), own("same")],
    ] {
        lock.artifacts = wrong;
        let error = read(&lock).unwrap_err().text;
        assert!(error.contains("invalid name") || error.contains("duplicate name"));
    }
}
