//! Registries with and without the referrers API: test servers for the many variants.

use kubexm_bundle::lock::{Descriptor, LockedImage};
use kubexm_config::Mirrors;
use kubexm_config::mirrors::Checksums;
use kubexm_fetch::oci::Puller;
use kubexm_fetch::{Cache, Http};
use kubexm_sigstore::referrer;
use kubexm_types::Digest;
use kubexm_types::event::Events;
use serde_json::{Value, json};
use wiremock::matchers::{path, query_param, query_param_is_missing};
use wiremock::{Mock, MockServer, ResponseTemplate};

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn entry(name: &str, kind: &str) -> Value {
    json!({
        "mediaType": MANIFEST, "digest": Digest::of(name.as_bytes()), "size": 7,
        "artifactType": kind,
    })
}

fn list(entries: &[Value]) -> ResponseTemplate {
    let list = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
    ResponseTemplate::new(200).set_body_raw(list.to_string(), INDEX)
}

struct Stand {
    server: MockServer,
    puller: Puller,
    image: LockedImage,
    _cache: tempfile::TempDir,
}

impl Stand {
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = MockServer::start().await;
        let mirrors = Mirrors {
            registries: [("registry.example".to_owned(), vec![server.uri()])].into(),
            checksums: Checksums::Mirror,
            ..Mirrors::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let http = Http::new(mirrors, cache, Events::silent()).unwrap();
        Self {
            server,
            puller: Puller::new(http),
            image: LockedImage {
                name: "registry.example/team/app:1".parse().unwrap(),
                manifest: Descriptor {
                    media_type: MANIFEST.to_owned(),
                    digest: Digest::of(b"an image"),
                    size: 8,
                },
                platforms: Vec::new(),
                signature: None,
                unsigned: None,
                checksum: None,
            },
            _cache: folder,
        }
    }

    fn referrers(&self) -> String {
        format!("/v2/team/app/referrers/{}", self.image.manifest.digest)
    }

    fn tag(&self) -> String {
        format!("/v2/team/app/manifests/{}", self.image.referrers_tag())
    }

    async fn answers(&self, place: &str, answer: ResponseTemplate) {
        Mock::given(path(place))
            .respond_with(answer)
            .mount(&self.server)
            .await;
    }

    async fn found(&self) -> Result<Vec<Digest>, String> {
        let found = self.puller.bundles_of(&self.image).await;
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|entry| entry.digest).collect())
    }
}

#[tokio::test]
async fn paginated_referrers_list_is_read_to_its_end() {
    let stand = Stand::new().await;
    let place = stand.referrers();
    let more = format!("<{place}?artifactType=x&n=2>; rel=\"next\"");
    let first = [entry("a", BUNDLE), entry("sbom", "application/spdx+json")];
    Mock::given(path(place.as_str()))
        .and(query_param("artifactType", BUNDLE))
        .and(query_param_is_missing("n"))
        .respond_with(list(&first).append_header("Link", more.as_str()))
        .mount(&stand.server)
        .await;
    let mut second = [entry("b", BUNDLE), entry("a", BUNDLE), entry("c", BUNDLE)];
    second[2]["size"] = json!(1_u64 << 40);
    // A link to another server is not followed.
    let away = "<https://elsewhere.example/v2/x>; rel=\"next\"";
    Mock::given(path(place.as_str()))
        .and(query_param("n", "2"))
        .respond_with(list(&second).append_header("Link", away))
        .mount(&stand.server)
        .await;
    // The list under the tag is not for this verification.
    stand
        .answers(&stand.tag(), list(&[entry("d", BUNDLE)]))
        .await;
    let found = stand.found().await.unwrap();
    assert_eq!(found, [Digest::of(b"a"), Digest::of(b"b")]);
}

#[tokio::test]
async fn referrers_tag_is_used_without_the_referrers_api() {
    let page = ResponseTemplate::new(200).set_body_string("<html>welcome</html>");
    let statuses = [400, 403, 404, 405].map(ResponseTemplate::new);
    for answer in statuses.into_iter().chain([page, list(&[])]) {
        let stand = Stand::new().await;
        stand.answers(&stand.referrers(), answer).await;
        assert_eq!(stand.found().await.unwrap(), []);
        stand
            .answers(&stand.tag(), list(&[entry("a", BUNDLE)]))
            .await;
        assert_eq!(stand.found().await.unwrap(), [Digest::of(b"a")]);
    }
    // The listed artifact may be anything.
    let stand = Stand::new().await;
    let image = json!({"schemaVersion": 2, "layers": [], "config": {}});
    let image = ResponseTemplate::new(200).set_body_raw(image.to_string(), MANIFEST);
    stand.answers(&stand.tag(), image).await;
    assert_eq!(stand.found().await.unwrap(), []);
}

/// Signatures must not be lost because a registry is busy.
#[tokio::test]
async fn registry_error_is_not_a_missing_signature() {
    let _filters = super::filters();
    let stand = Stand::new().await;
    let busy = ResponseTemplate::new(429).append_header("Retry-After", "86400");
    stand.answers(&stand.referrers(), busy).await;
    stand
        .answers(&stand.tag(), list(&[entry("a", BUNDLE)]))
        .await;
    let refusal = stand.found().await.unwrap_err();
    insta::assert_snapshot!(refusal, @"
    the signatures of registry.example/team/app:1: http://127.0.0.1:[port]/v2/team/app/referrers/sha256:[digest]?artifactType=application%2Fvnd.dev.sigstore.bundle.v0.3%2Bjson answered 429
    hint: too many requests: wait, log in, or use a mirror (--mirrors); the server asks to wait 86400 s
    ");
}

#[test]
fn invalid_lists_and_referrers_are_named() {
    let many: Vec<Value> = (0..500).map(|n| entry(&n.to_string(), BUNDLE)).collect();
    let mut signed = entry("signed", BUNDLE);
    signed["annotations"] = json!({
        "dev.sigstore.bundle.predicateType": "https://sigstore.dev/cosign/sign/v1"
    });
    let many = [&many[..], &[signed]].concat();
    let all = json!({"schemaVersion": 2, "manifests": many});
    let listed = referrer::listed(all.to_string().as_bytes()).unwrap();
    // A limited number of them, starting with those that have the type of a signature.
    assert!(listed.len() < 100 && listed[0].digest == Digest::of(b"signed"));
    for text in [
        "",
        "{}",
        "[]",
        r#"{"manifests": 1}"#,
        r#"{"mediaType": "x", "manifests": []}"#,
    ] {
        assert!(referrer::listed(text.as_bytes()).is_err(), "{text}");
    }
    let part = |name: &str, kind: &str| json!({"mediaType": kind, "digest": Digest::of(name.as_bytes()), "size": 2});
    let good = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
        "config": part("config", "application/vnd.oci.empty.v1+json"),
        "layers": [part("bundle", BUNDLE)], "subject": part("image", MANIFEST),
    });
    let read = |manifest: &Value| referrer::read(manifest.to_string().as_bytes());
    let referrer = read(&good).unwrap().unwrap();
    assert_eq!(referrer.subject, Digest::of(b"image"));
    assert_eq!(referrer.bundle.digest, Digest::of(b"bundle"));
    assert_eq!(referrer.parts.len(), 2);
    for (key, value) in [
        ("mediaType", json!(INDEX)),
        ("artifactType", json!("application/spdx+json")),
        ("layers", json!([])),
        ("layers", json!([part("bundle", "text/plain")])),
        ("layers", json!([part("a", BUNDLE), part("b", BUNDLE)])),
        ("subject", Value::Null),
    ] {
        let mut other = good.clone();
        other[key] = value;
        assert_eq!(read(&other), Ok(None), "{other}");
    }
    let mut huge = good.clone();
    huge["layers"][0]["size"] = json!(1_u64 << 40);
    assert!(
        read(&huge)
            .unwrap_err()
            .contains("with a size above the limit")
    );
    let mut twice = good.clone();
    twice["config"]["digest"] = twice["layers"][0]["digest"].clone();
    twice["config"]["size"] = json!(3);
    assert!(read(&twice).unwrap_err().contains("two sizes"));
    assert!(referrer::read(b"{}").is_err());
    // A list has each of them once.
    let manifest = good.to_string().into_bytes();
    let list = referrer::list_of(&manifest);
    assert_eq!(referrer::with_one_more(&list, &manifest), Ok(None));
    let other = twice.to_string().into_bytes();
    let more = referrer::with_one_more(&list, &other).unwrap().unwrap();
    let digests: Vec<Digest> = referrer::listed(&more)
        .unwrap()
        .iter()
        .map(|p| p.digest)
        .collect();
    assert_eq!(digests, [Digest::of(&manifest), Digest::of(&other)]);
    assert!(referrer::with_one_more(b"{}", &other).is_err());
}
