//! A test server that answers as an etcd, and every failure of a query.

use crate::authority::Authority;
use crate::etcd_client::*;

fn answer(status: u16, body: &str) -> Response {
    let body = body.as_bytes().to_vec();
    Response {
        status,
        asks_for_token: false,
        body,
    }
}

#[test]
fn answers_of_etcd_are_parsed() {
    let version = answer(200, "{\"etcdserver\":\"3.6.8\"}");
    assert_eq!(json(&version).unwrap()["etcdserver"], "3.6.8");
    assert_eq!(unhealthy(&answer(200, "{\"health\":\"true\"}")), None);
    let failed = unhealthy(&answer(503, "{\"health\":\"false\"}")).unwrap();
    insta::assert_snapshot!(failed, @r#"status 503 {"health":"false"}"#);
    let counted = count(&answer(200, "{\"header\":{},\"count\":\"7\"}"));
    assert_eq!(counted, Keys::Count(7));
}

#[test]
fn count_covers_the_whole_prefix() {
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
async fn serve_etcd(authority: &Authority) -> u16 {
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

async fn query(client: &Client, port: u16, name: &str) -> Result<EtcdStatus, EtcdError> {
    use kubexm_host::Host;
    let here = kubexm_host::local::LocalHost::new("here".parse().unwrap());
    client
        .query(|| here.open_tunnel("127.0.0.1", port), name, "/registry/")
        .await
}

#[tokio::test]
async fn each_failure_of_a_query_has_its_own_error() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (site, other) = (Authority::new(), Authority::new());
    let port = serve_etcd(&site).await;
    let answers = query(&client(&site, &site), port, "127.0.0.1")
        .await
        .unwrap();
    let version = Some("3.5.1".parse().unwrap());
    assert_eq!(
        answers,
        EtcdStatus {
            version,
            unhealthy: None,
            keys: Keys::Count(3)
        }
    );
    let other_ca = query(&client(&other, &site), port, "127.0.0.1").await;
    assert!(matches!(other_ca, Err(EtcdError::OtherCa)), "{other_ca:?}");
    let other_name = query(&client(&site, &site), port, "etcd.example").await;
    assert!(
        matches!(other_name, Err(EtcdError::OtherName(_))),
        "{other_name:?}"
    );
    let refused = query(&client(&site, &other), port, "127.0.0.1").await;
    insta::assert_snapshot!(refused.unwrap_err(), @"TLS: the server refuses the client certificate (DecryptError)");
    let closed = query(&client(&site, &site), 1, "127.0.0.1").await;
    assert!(
        matches!(closed, Err(EtcdError::Tunnel(TunnelError::Refused))),
        "{closed:?}"
    );
}

#[test]
fn files_that_do_not_belong_together_are_named() {
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
    insta::assert_snapshot!(hidden(error), @"[folder]/client.crt and [other folder]/client.key do not belong together: keys may not be consistent: KeyMismatch");
    let error = Client::load(&path("client.key"), &path("client.crt"), &key).err();
    insta::assert_snapshot!(hidden(error), @"[folder]/client.key: does not contain a certificate");
}

#[test]
fn unknown_number_of_keys_is_not_zero() {
    assert_eq!(count(&answer(200, r#"{"header":{}}"#)), Keys::Count(0));
    assert_eq!(count(&answer(404, "404 page not found")), Keys::NoGateway);
    for (status, body) in [
        (503, ""),
        (200, "{}"),
        (200, r#"{"header":{},"count":"many"}"#),
    ] {
        let keys = count(&answer(status, body));
        assert!(
            matches!(keys, Keys::Unknown(_)),
            "{status} {body}: {keys:?}"
        );
    }
}
