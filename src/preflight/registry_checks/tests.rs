use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ServerConfig;

use super::*;
use crate::authority::Authority;
use kubexm_config::cluster::{ExternalRegistry, PasswordSource, RegistryLogin};
use kubexm_config::example::cluster;
use kubexm_host::local::LocalHost;

const VERSION: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
const PRESENT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";

/// Returns the finding for a registry with one answer for `/v2/` and one for manifests.
async fn finding(version: &'static str, manifest: &'static str) -> Option<String> {
    let findings = findings(&["pause"], move |_, request| match request {
        None => version,
        Some(_) => manifest,
    });
    findings.await.into_iter().next()
}

/// Returns the findings for a registry and images. `answer` gets the number of the request, from 0, and the
/// name of the image; `None` for `/v2/`.
async fn findings(
    names: &[&str],
    answer: impl Fn(usize, Option<&str>) -> &'static str + Send + 'static,
) -> Vec<String> {
    let authority = Authority::new();
    let config = ServerConfig::builder().with_no_client_auth();
    let count = AtomicUsize::new(0);
    let answers = move |request: &str| {
        assert!(request.contains("\r\nhost: 127.0.0.1:"), "{request}");
        let nth = count.fetch_add(1, Ordering::SeqCst);
        let image = request.strip_prefix("HEAD /v2/lab/");
        let image = image.and_then(|rest| rest.split_once("/manifests/3.10 HTTP/1.1\r\n"));
        answer(nth, image.map(|(name, _)| name)).to_owned()
    };
    let port = authority.serve(config, answers).await;
    let registry = ExternalRegistry {
        address: format!("127.0.0.1:{port}"),
        project: "lab".to_owned(),
        ca_file: Some(authority.path("ca.crt")),
        login: None,
    };
    let host = here();
    let mut client = RegistryClient::new(&registry).unwrap();
    client.pauses = &[Duration::ZERO; 3];
    let images = names.iter().map(|name| {
        let image = format!("registry.k8s.io/{name}:3.10").parse().unwrap();
        (image, (*name).to_owned())
    });
    let images: Vec<(ImageRef, String)> = images.collect();
    let found = match check_answer(&client, &host).await {
        Err(found) => vec![found],
        Ok(access) => check_images(&client, access, &host, &images).await,
    };
    let texts = found.into_iter().map(|found| found.what);
    texts
        .map(|text| text.replace(&registry.address, "REGISTRY"))
        .collect()
}

#[tokio::test]
async fn each_answer_of_a_registry_has_its_own_finding() {
    let status = |number| match number {
        200 => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        401 => "HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        404 => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        _ => "HTTP/1.1 503 Service Unavailable\r\n\r\n",
    };
    let missing =
        "the registry REGISTRY is missing 1 of the bundle's images: registry.k8s.io/pause:3.10…";
    let silent = "the registry REGISTRY did not answer for 1 of 1 images, so kubexm does not know whether it \
                  has them: registry.k8s.io/pause:3.10: ";
    for (version, manifest, expected) in [
        (status(200), PRESENT, None),
        (
            status(401),
            PRESENT,
            Some("the registry REGISTRY requires a login, and spec.registry has none".to_owned()),
        ),
        (
            status(404),
            PRESENT,
            Some("the server at REGISTRY is not a registry (status 404)".to_owned()),
        ),
        (
            status(503),
            PRESENT,
            Some("the registry REGISTRY does not answer: status 503".to_owned()),
        ),
        (status(200), status(404), Some(missing.to_owned())),
        (
            status(200),
            status(401),
            Some(format!("{silent}status 401")),
        ),
        (
            status(200),
            status(503),
            Some(format!("{silent}status 503")),
        ),
    ] {
        assert_eq!(finding(version, manifest).await, expected);
    }
}

/// A registry with public images asks for a token, which container runtimes get without a login.
#[tokio::test]
async fn registry_that_gives_tokens_without_a_login_can_be_used() {
    const TOKEN: &str = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"https://auth.example/token\",service=\"registry\"\r\n\
        Content-Length: 0\r\n\r\n";
    const PASSWORD: &str = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"registry\"\r\nContent-Length: 0\r\n\r\n";
    let authority = Authority::new();
    let password = authority.path("password");
    std::fs::write(&password, "secret").unwrap();
    std::fs::set_permissions(
        &password,
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let login = || {
        Some(RegistryLogin {
            user: "user".to_owned(),
            password: PasswordSource::File(password.clone()),
        })
    };
    let image = (
        "registry.k8s.io/pause:3.10".parse().unwrap(),
        "pause".to_owned(),
    );
    let mut cluster = cluster("", "");
    let host: Arc<dyn Host> = Arc::new(here());
    let hosts = BTreeMap::from([(host.name().clone(), host)]);
    let mut found = async |answer: &'static str, login, images: &[(ImageRef, String)]| {
        let config = ServerConfig::builder().with_no_client_auth();
        let port = authority.serve(config, |_| answer.to_owned()).await;
        let address = format!("127.0.0.1:{port}");
        cluster.registry.external = Some(ExternalRegistry {
            address: address.clone(),
            project: String::new(),
            ca_file: Some(authority.path("ca.crt")),
            login,
        });
        let findings = check(&cluster, &hosts, images).await.into_iter();
        findings
            .map(|one| (one.fatal, one.what.replace(&address, "REGISTRY")))
            .collect::<Vec<_>>()
    };
    // `status` looks at no image.
    assert_eq!(found(TOKEN, None, &[]).await, []);
    let unknown = found(TOKEN, None, std::slice::from_ref(&image)).await;
    assert!(
        matches!(&unknown[..], [(false, what)] if what.contains("does not know whether it has the 1 images")),
        "{unknown:?}"
    );
    // Some registries accept a login only where they give tokens.
    let unknown = found(TOKEN, login(), &[]).await;
    assert!(
        matches!(&unknown[..], [(false, what)] if what.contains("does not accept the login here")),
        "{unknown:?}"
    );
    let refused = "the registry REGISTRY refuses the login".to_owned();
    assert_eq!(found(PASSWORD, login(), &[]).await, [(true, refused)]);
    let required = "the registry REGISTRY requires a login, and spec.registry has none".to_owned();
    assert_eq!(found(PASSWORD, None, &[]).await, [(true, required)]);
}

#[tokio::test]
async fn broken_connection_is_not_a_missing_image() {
    let nothing = finding("", PRESENT).await.unwrap();
    assert!(
        nothing.starts_with("cannot use the registry REGISTRY: "),
        "{nothing}"
    );
    let foreign = finding("220 mail.example ESMTP\r\n", PRESENT)
        .await
        .unwrap();
    assert_eq!(
        foreign,
        "cannot use the registry REGISTRY: it does not speak HTTP"
    );
    let version = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let broken = finding(version, "").await.unwrap();
    assert!(
        broken.contains("did not answer for 1 of 1 images")
            && broken.contains(": registry.k8s.io/pause:3.10: "),
        "{broken}"
    );
}

/// A registry that answers none of the first requests: with 503, with 429, and with a broken connection.
#[tokio::test]
async fn request_without_an_answer_is_repeated() {
    const FAILURES: [&str; 3] = [
        "HTTP/1.1 503 Service Unavailable\r\n\r\n",
        "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n",
        "",
    ];
    let found = findings(&["pause"], |nth, image| match (nth, image) {
        (0..=2, None) => FAILURES[nth],
        (_, None) => VERSION,
        (4..=6, Some(_)) => FAILURES[nth - 4],
        (_, Some(_)) => PRESENT,
    });
    assert_eq!(found.await, [""; 0]);
}

#[tokio::test]
async fn absent_images_and_images_without_an_answer_are_different_findings() {
    let names = ["present", "absent", "silent", "also-absent"];
    let found = findings(&names, |_, image| match image {
        None => VERSION,
        Some("present") => PRESENT,
        Some("silent") => "HTTP/1.1 503 Service Unavailable\r\n\r\n",
        Some(_) => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    });
    insta::assert_snapshot!(found.await.join("\n"), @"
    the registry REGISTRY did not answer for 1 of 4 images, so kubexm does not know whether it has them: registry.k8s.io/silent:3.10: status 503
    the registry REGISTRY is missing 2 of the bundle's images: registry.k8s.io/absent:3.10, registry.k8s.io/also-absent:3.10…
    ");
}

/// Starts a registry that has no CA file, and returns it.
async fn without_ca_file(authority: &Authority) -> ExternalRegistry {
    let config = ServerConfig::builder().with_no_client_auth();
    let port = authority.serve(config, |_| VERSION.to_owned()).await;
    ExternalRegistry {
        address: format!("127.0.0.1:{port}"),
        project: String::new(),
        ca_file: None,
        login: None,
    }
}

fn here() -> LocalHost {
    LocalHost::new("node1".parse().unwrap())
}

#[tokio::test]
async fn registry_without_a_ca_file_is_asked() {
    let authority = Authority::new();
    let mut cluster = cluster("", "");
    cluster.registry.external = Some(without_ca_file(&authority).await);
    let host: Arc<dyn Host> = Arc::new(here());
    let hosts = BTreeMap::from([(host.name().clone(), host)]);
    // No machine accepts the CA of this test.
    let found = check(&cluster, &hosts, &[]).await;
    assert!(
        matches!(&found[..], [one] if !one.fatal && one.hint == OWN_CA),
        "{found:?}"
    );
}

#[tokio::test]
async fn registry_without_a_ca_file_has_a_ca_of_the_host() {
    let authority = Authority::new();
    let registry = without_ca_file(&authority).await;
    let client = RegistryClient::new(&registry).unwrap();
    let file = authority.path("ca.crt").display().to_string();
    // The directory also has keys, and a file that is not a certificate.
    std::fs::write(authority.path("other"), "-----BEGIN CERTIFICATE-----\n?\n").unwrap();
    let folder = authority.folder().display().to_string();
    for path in [&file, &folder] {
        let client = client.trusting(&here(), &["/absent/ca.crt", path]).await;
        let client = client.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(
            check_answer(&client, &here()).await,
            Ok(Access::Login),
            "{path}"
        );
    }
    let Err(error) = client
        .trusting(&here(), &["/absent", "/etc/hostname"])
        .await
    else {
        panic!("a host without CAs");
    };
    assert_eq!(
        error.to_string(),
        "the host has no CAs in /absent, /etc/hostname"
    );
}
