//! An etcd that answers well, and each way in which it does not.

use crate::authority::Authority;
use crate::etcd_client::*;

fn answer(status: u16, body: &str) -> Answer {
    let body = body.as_bytes().to_vec();
    Answer { status, body }
}

#[test]
fn answers_of_etcd_are_read() {
    let version = answer(200, "{\"etcdserver\":\"3.6.8\"}");
    assert_eq!(json(&version).unwrap()["etcdserver"], "3.6.8");
    assert_eq!(ailment(&answer(200, "{\"health\":\"true\"}")), None);
    let ill = ailment(&answer(503, "{\"health\":\"false\"}")).unwrap();
    insta::assert_snapshot!(ill, @r#"status 503 {"health":"false"}"#);
    assert_eq!(count(&answer(200, "{\"header\":{}}")), Some(0));
    assert_eq!(
        count(&answer(200, "{\"header\":{},\"count\":\"7\"}")),
        Some(7)
    );
    assert_eq!(count(&answer(404, "404 page not found")), None);
}

#[test]
fn a_count_asks_for_the_whole_prefix() {
    // "/registry/" and "/registry0": the byte after "/" is "0".
    let text = count_request("/registry/");
    assert!(
        text.contains("L3JlZ2lzdHJ5Lw==") && text.contains("L3JlZ2lzdHJ5MA=="),
        "{text}"
    );
}

fn client(own: &Authority, other: &Authority) -> Client {
    Client::load(
        &own.path("ca.crt"),
        &other.path("client.crt"),
        &other.path("client.key"),
    )
    .unwrap()
}

/// A server with the TLS of an etcd and fixed answers.
async fn stand_in(authority: &Authority) -> u16 {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&authority.path("ca.crt")).unwrap() {
        roots.add(certificate).unwrap();
    }
    let verifier = rustls::server::WebPkiClientVerifier::builder(Arc::new(roots));
    let config =
        rustls::ServerConfig::builder().with_client_cert_verifier(verifier.build().unwrap());
    let answers = |request: &str| {
        let body = match request {
            text if text.starts_with("GET /version ") => r#"{"etcdserver":"3.5.1"}"#,
            text if text.starts_with("GET /health ") => r#"{"health":"true"}"#,
            _ => r#"{"header":{},"count":"3"}"#,
        };
        format!("HTTP/1.0 200 OK\r\n\r\n{body}")
    };
    authority.serve(config, answers).await
}

async fn ask(client: &Client, port: u16, name: &str) -> Result<Answers, EtcdError> {
    use kubexm_host::Host;
    let here = kubexm_host::local::LocalHost::new("here".parse().unwrap());
    client
        .ask(|| here.dial("127.0.0.1", port), name, "/registry/")
        .await
}

#[tokio::test]
async fn an_etcd_is_asked_and_what_is_wrong_with_it_has_a_name() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (site, other) = (Authority::new(), Authority::new());
    let port = stand_in(&site).await;
    let answers = ask(&client(&site, &site), port, "127.0.0.1").await.unwrap();
    let version = Some("3.5.1".parse().unwrap());
    assert_eq!(
        answers,
        Answers {
            version,
            ailment: None,
            keys: Some(3)
        }
    );
    let other_ca = ask(&client(&other, &site), port, "127.0.0.1").await;
    assert!(matches!(other_ca, Err(EtcdError::OtherCa)), "{other_ca:?}");
    let other_name = ask(&client(&site, &site), port, "etcd.example").await;
    assert!(
        matches!(other_name, Err(EtcdError::OtherName(_))),
        "{other_name:?}"
    );
    let refused = ask(&client(&site, &other), port, "127.0.0.1").await;
    insta::assert_snapshot!(refused.unwrap_err(), @"TLS: it refuses the client certificate (DecryptError)");
    let closed = ask(&client(&site, &site), 1, "127.0.0.1").await;
    assert!(
        matches!(closed, Err(EtcdError::Dial(DialError::Refused))),
        "{closed:?}"
    );
}

#[test]
fn files_that_do_not_go_together_are_named() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (site, other) = (Authority::new(), Authority::new());
    let path = |name: &str| site.path(name);
    let key = other.path("client.key");
    let error = Client::load(&path("ca.crt"), &path("client.crt"), &key).err();
    let hidden = |error: Option<String>| {
        let folder = site.folder().display().to_string();
        let other = other.folder().display().to_string();
        let error = error.unwrap().replace(&folder, "[folder]");
        error.replace(&other, "[other folder]")
    };
    insta::assert_snapshot!(hidden(error), @"[folder]/client.crt and [other folder]/client.key do not go together: keys may not be consistent: KeyMismatch");
    let error = Client::load(&path("client.key"), &path("client.crt"), &key).err();
    insta::assert_snapshot!(hidden(error), @"[folder]/client.key: holds no certificate");
}
