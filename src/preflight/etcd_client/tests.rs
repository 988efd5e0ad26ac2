//! An etcd that answers well, and each way in which it does not.

use crate::etcd_client::*;

fn answer(text: &str) -> Answer {
    Answer::parse(text.as_bytes()).unwrap()
}

#[test]
fn answers_of_etcd_are_read() {
    let version = answer("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"etcdserver\":\"3.6.8\"}");
    assert_eq!(version.json().unwrap()["etcdserver"], "3.6.8");
    let well = answer("HTTP/1.0 200 OK\r\n\r\n{\"health\":\"true\"}");
    assert_eq!(well.ailment(), None);
    let ill = answer("HTTP/1.0 503 Service Unavailable\r\n\r\n{\"health\":\"false\"}");
    insta::assert_snapshot!(ill.ailment().unwrap(), @r#"status 503 {"health":"false"}"#);
    let none = answer("HTTP/1.0 200 OK\r\n\r\n{\"header\":{}}");
    let some = answer("HTTP/1.0 200 OK\r\n\r\n{\"header\":{},\"count\":\"7\"}");
    let off = answer("HTTP/1.0 404 Not Found\r\n\r\n404 page not found");
    assert_eq!(
        [none.count(), some.count(), off.count()],
        [Some(0), Some(7), None]
    );
    assert!(matches!(
        Answer::parse(b"SSH-2.0-x\r\n"),
        Err(EtcdError::Foreign(_))
    ));
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

/// A CA and leaves that it signs, as files of a folder.
struct Authority {
    folder: tempfile::TempDir,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.crt"), certificate.pem()).unwrap();
        let issuer = rcgen::Issuer::new(params, key);
        let authority = Self { folder, issuer };
        authority.sign("server", "127.0.0.1");
        authority.sign("client", "client");
        authority
    }

    fn sign(&self, file: &str, name: &str) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |end: &str| self.folder.path().join(format!("{file}.{end}"));
        std::fs::write(path("crt"), certificate.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
    }

    fn client(&self, of: &Self) -> Client {
        let (own, other) = (self.folder.path(), of.folder.path());
        Client::load(
            &own.join("ca.crt"),
            &other.join("client.crt"),
            &other.join("client.key"),
        )
        .unwrap()
    }
}

/// A stand-in for etcd on loopback: its TLS is real, its answers are fixed.
async fn stand_in(authority: &Authority) -> u16 {
    let path = |name: &str| authority.folder.path().join(name);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path("ca.crt")).unwrap() {
        roots.add(certificate).unwrap();
    }
    let verifier = rustls::server::WebPkiClientVerifier::builder(Arc::new(roots));
    let config = rustls::ServerConfig::builder()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            certificates(&path("server.crt")).unwrap(),
            PrivateKeyDer::from_pem_file(path("server.key")).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((line, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(line).await else {
                continue;
            };
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap_or(0);
            let body = match &request[..count] {
                text if text.starts_with(b"GET /version ") => r#"{"etcdserver":"3.5.1"}"#,
                text if text.starts_with(b"GET /health ") => r#"{"health":"true"}"#,
                _ => r#"{"header":{},"count":"3"}"#,
            };
            let answer = format!("HTTP/1.0 200 OK\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    port
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
    let (site, stranger) = (Authority::new(), Authority::new());
    let port = stand_in(&site).await;
    let answers = ask(&site.client(&site), port, "127.0.0.1").await.unwrap();
    let version = Some("3.5.1".parse().unwrap());
    assert_eq!(
        answers,
        Answers {
            version,
            ailment: None,
            keys: Some(3)
        }
    );
    let other_ca = ask(&stranger.client(&site), port, "127.0.0.1").await;
    assert!(matches!(other_ca, Err(EtcdError::OtherCa)), "{other_ca:?}");
    let other_name = ask(&site.client(&site), port, "etcd.example").await;
    assert!(
        matches!(other_name, Err(EtcdError::OtherName(_))),
        "{other_name:?}"
    );
    let refused = ask(&site.client(&stranger), port, "127.0.0.1").await;
    insta::assert_snapshot!(refused.unwrap_err(), @"TLS: it refuses the client certificate (DecryptError)");
    let closed = ask(&site.client(&site), 1, "127.0.0.1").await;
    assert!(
        matches!(closed, Err(EtcdError::Dial(DialError::Refused))),
        "{closed:?}"
    );
}

#[test]
fn files_that_do_not_go_together_are_named() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (site, other) = (Authority::new(), Authority::new());
    let path = |name: &str| site.folder.path().join(name);
    let key = other.folder.path().join("client.key");
    let error = Client::load(&path("ca.crt"), &path("client.crt"), &key).err();
    let hidden = |error: Option<String>| {
        let folder = site.folder.path().display().to_string();
        let other = other.folder.path().display().to_string();
        let error = error.unwrap().replace(&folder, "[folder]");
        error.replace(&other, "[other folder]")
    };
    insta::assert_snapshot!(hidden(error), @"[folder]/client.crt and [other folder]/client.key do not go together: keys may not be consistent: KeyMismatch");
    let error = Client::load(&path("client.key"), &path("client.crt"), &key).err();
    insta::assert_snapshot!(hidden(error), @"[folder]/client.key: holds no certificate");
}
