//! Logins stay with the server that they are for, and passwords are in no message.

use std::path::Path;
use std::sync::{Arc, Mutex};

use kubexm_types::ImageRef;
use kubexm_types::event::{Event, Listener};

use super::program::authority;
use super::*;

const CANARY: &str = "c4n4ry-p4ssw0rd";

/// Collects every event as text.
#[derive(Default)]
struct Book(Mutex<String>);

impl Listener for Book {
    fn on(&self, event: &Event) {
        self.0.lock().unwrap().push_str(&format!("{event:?}\n"));
    }
}

/// Runs `bundle pull` of an image name, with the login in Docker's configuration and the CA of the origin.
async fn pull(origin: &Origin, folder: &Path, ca: &str) -> String {
    std::fs::write(folder.join("ca.pem"), ca).unwrap();
    let place = format!("127.0.0.1:{}", origin.port);
    let login = r#""auth": "YWxpY2U6c2VjcmV0LW9mLWFsaWNl""#;
    let config = format!("{{\"auths\": {{\"{place}\": {{{login}}}}}}}");
    std::fs::write(folder.join("config.json"), config).unwrap();
    let mirrors = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\nregistries: {{\"{place}\": \"{}\"}}\n",
        origin.uri()
    );
    std::fs::write(folder.join("mirrors.yaml"), mirrors).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubexm"));
    command.args(["bundle", "pull", &format!("oci://{place}/team/app:1")]);
    command.args([
        "-o",
        "b.tar.zst",
        "--cache",
        "cache",
        "--ca",
        "ca.pem",
        "--mirrors",
        "mirrors.yaml",
    ]);
    command.env("DOCKER_CONFIG", folder).current_dir(folder);
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"] {
        command.env_remove(name);
    }
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    String::from_utf8(output.await.unwrap().stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_not_sent_to_a_token_service_without_tls_or_elsewhere() {
    let (ca, tls) = authority();
    let login = Some("Basic YWxpY2U6c2VjcmV0LW9mLWFsaWNl".to_owned());
    let registry = Origin::start_tls(
        Rules {
            login: login.clone(),
            ..Rules::default()
        },
        tls,
    )
    .await;
    let plain = Origin::start(Rules {
        login,
        ..Rules::default()
    })
    .await;
    // 127.0.0.2 is another host that reaches the same server.
    let elsewhere = format!("https://127.0.0.2:{}/token", registry.port);
    for (realm, reason) in [
        (format!("{}/token", plain.uri()), "does not use HTTPS"),
        (elsewhere, "is in another domain"),
    ] {
        registry.rules(|rules| rules.realm = Some(realm.clone()));
        let folder = tempfile::tempdir().unwrap();
        let said = pull(&registry, folder.path(), &ca).await;
        assert!(said.contains(reason) && said.contains(&realm), "{said}");
        for seen in registry.seen("").iter().chain(&plain.seen("")) {
            assert_eq!(seen.header("authorization"), "", "{seen:?}");
        }
    }
    registry.rules(|rules| rules.realm = None);
    let folder = tempfile::tempdir().unwrap();
    pull(&registry, folder.path(), &ca).await;
    let seen = registry.seen("");
    let logins = seen.iter().filter(|seen| seen.path.starts_with("/token"));
    assert!(logins.count() > 0, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_from_https_to_http_is_refused() {
    let (ca, tls) = authority();
    let plain = Origin::start(Rules::default()).await;
    plain.put("/file", CONTENT);
    plain.put("/file.sha256", Digest::of(CONTENT).hex());
    let rules = Rules {
        files_at: Some(plain.uri()),
        ..Rules::default()
    };
    let origin = Origin::start_tls(rules, tls).await;
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("ca.pem");
    std::fs::write(&pem, ca).unwrap();
    let reader = Reader::with(&origin, |mirrors| mirrors.ca.push(pem));
    let mut said = reader.download(None).await.unwrap_err().to_string();
    let checksum = "https://dl.invalid/file.sha256".parse().unwrap();
    let small = reader.http.published("checksum", &checksum, 1000).await;
    said += &format!("\n{}", small.unwrap_err());
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(said, @"
    file: cannot reach https://127.0.0.1:[port]/file: the server redirects from HTTPS to http://127.0.0.1:[port]/file, which is not encrypted
    hint: use an address that does not redirect, or a mirror (--mirrors)
    checksum: cannot reach https://127.0.0.1:[port]/file.sha256: the server redirects from HTTPS to http://127.0.0.1:[port]/file.sha256, which is not encrypted
    hint: use an address that does not redirect, or a mirror (--mirrors)
    ");
    assert!(plain.seen("").is_empty());
}

const CONTENT: &[u8] = b"what the publisher published";

/// Returns the errors of downloads, small files and images that do not exist or are not as expected.
async fn every_error(http: Http, wrong: Digest, image: &ImageRef) -> Vec<String> {
    let mut all = Vec::new();
    let files = [
        ("file", Some(wrong)),
        ("missing", None),
        ("missing", Some(wrong)),
    ];
    for (name, expected) in files {
        let wanted = Wanted {
            label: name.to_owned(),
            url: format!("https://dl.invalid/{name}").parse().unwrap(),
            expected,
            size: Some(7),
        };
        all.push(http.download(&wanted).await.unwrap_err().to_string());
    }
    for (name, limit) in [("file", 3), ("binary", 9), ("missing", 9)] {
        let url = format!("https://dl.invalid/{name}").parse().unwrap();
        all.push(http.text(name, &url, limit).await.unwrap_err().to_string());
    }
    let puller = Puller::new(http);
    for pinned in [None, Some(wrong), Some(Digest::of(b"missing"))] {
        let error = puller.resolve(image, &[Arch::Amd64], pinned).await;
        all.push(error.unwrap_err().to_string());
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_of_mirrors_are_in_no_error_and_no_event() {
    let origin = Origin::start(Rules::default()).await;
    let with_password = |address: String| address.replace("://", &format!("://bob:{CANARY}@"));
    let own = with_password(origin.uri());
    let closed = with_password("http://127.0.0.1:1".to_owned());
    let book = Arc::new(Book::default());
    let folder = tempfile::tempdir().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = |checksums, to: &[&str]| {
        let to: Vec<String> = to.iter().map(|&address| address.to_owned()).collect();
        let mirrors = Mirrors {
            downloads: [("https://dl.invalid".to_owned(), to.clone())].into(),
            registries: [("registry.invalid".to_owned(), to)].into(),
            checksums,
            ..Mirrors::default()
        };
        let cache = Cache::open(&folder.path().join("cache")).unwrap();
        let events = Events::new(Arc::clone(&book) as Arc<dyn Listener>);
        Http::new(mirrors, cache, events).unwrap()
    };
    origin.put("/file", CONTENT);
    origin.put("/binary", vec![0xff, 0xfe]);
    let manifest = r#"{"schemaVersion": 2}"#;
    let image: ImageRef = "registry.invalid/team/app:1".parse().unwrap();
    origin.put("/v2/team/app/manifests/1", manifest);
    let wrong = Digest::of(b"another");
    origin.put(&format!("/v2/team/app/manifests/{wrong}"), manifest);
    let broken = format!("http://bob:{CANARY}@no host/");
    let mut runs = Vec::new();
    for to in [
        &[own.as_str()][..],
        &[&closed],
        &[&broken],
        &[&closed, &own],
    ] {
        for checksums in [Checksums::Mirror, Checksums::Origin] {
            // Concurrently, because kubexm asks a server that does not answer several times.
            runs.push(every_error(client(checksums, to), wrong, &image));
        }
    }
    let mut all = futures_util::future::join_all(runs).await.concat();
    // Challenges, with the mirror's password as the login of the registry.
    origin.rules(|rules| rules.login = Some("not-this-login".to_owned()));
    for realm in [
        None,
        Some("http://127.0.0.2:1/token"),
        Some(closed.as_str()),
    ] {
        origin.rules(|rules| rules.realm = realm.map(str::to_owned));
        let puller = Puller::new(client(Checksums::Mirror, &[&own]));
        let error = puller.resolve(&image, &[Arch::Amd64], None).await;
        all.push(error.unwrap_err().to_string());
    }
    let events = book.0.lock().unwrap().clone();
    assert!(
        all.len() > 70 && events.contains("Trying the next address"),
        "{events}"
    );
    for text in all.iter().chain([&events]) {
        assert!(!text.contains(CANARY), "{text}");
    }
}
