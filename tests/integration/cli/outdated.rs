//! `kubexm bundle outdated`.

use super::*;

async fn answer(server: &MockServer, at: &str, text: &str) {
    let response = ResponseTemplate::new(200).set_body_string(text);
    let mock = Mock::given(method("GET")).and(wiremock::matchers::path(at));
    mock.respond_with(response).mount(server).await;
}

#[tokio::test]
async fn newer_releases_and_failed_requests_are_reported() {
    let server = MockServer::start().await;
    let tag = |tag: &str| format!(r#"<link href="https://github.com/x/x/releases/tag/{tag}"/>"#);
    let feed = ["v2.4.1", "v2.3.9", "v2.5.0-rc.0"].map(tag).concat();
    answer(
        &server,
        "/github.com/containerd/containerd/releases.atom",
        &feed,
    )
    .await;
    answer(&server, "/dl.k8s.io/release/stable.txt", "v1.36.3").await;
    answer(&server, "/dl.k8s.io/release/stable-1.36.txt", "v1.36.3\n").await;

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (mut lock, _) = example(&[b"a".to_vec(), b"b".to_vec()]);
    for (file, (name, version)) in lock.files.iter_mut().zip([
        ("containerd", Version::new(2, 3, 7)),
        ("kubeadm", Version::new(1, 36, 3)),
    ]) {
        file.component = name.into();
        file.version = version;
    }
    let write = |lock: &Lock| {
        std::fs::write(at("b.lock.yaml"), serde_saphyr::to_string(lock).unwrap()).unwrap();
    };
    write(&lock);
    let lines: String = ["https://github.com", "https://dl.k8s.io"]
        .map(|site| format!("  {site}: {}/{}\n", server.uri(), &site[8..]))
        .concat();
    let mirrors = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\nchecksums: mirror\ndownloads:\n{lines}"
    );
    std::fs::write(at("mirrors.yaml"), mirrors).unwrap();
    let ask = async || {
        let arguments = [at("b.lock.yaml"), at("mirrors.yaml"), at("cache")];
        tokio::task::spawn_blocking(move || {
            let [lock, mirrors, cache] = arguments.each_ref().map(String::as_str);
            run(&[
                "bundle",
                "outdated",
                lock,
                "--mirrors",
                mirrors,
                "--cache",
                cache,
            ])
        })
        .await
        .unwrap()
    };
    let (code, said, _) = ask().await;
    assert_eq!(
        (code, said.as_str()),
        (Some(0), "containerd 2.3.7: 2.3.9, and 2.4.1\n")
    );
    lock.files[0].version = Version::new(2, 4, 1);
    write(&lock);
    assert_eq!(ask().await.1, "nothing has a newer release\n");
    lock.files[0].component = "etcd".into();
    write(&lock);
    let (code, _, err) = ask().await;
    assert_eq!(code, Some(3));
    let _filters = filters();
    insta::assert_snapshot!(err, @"
    error: releases of etcd: http://127.0.0.1:[port]/github.com/etcd-io/etcd/releases.atom answered 404
    hint: check that this version exists in the project's releases
    ");
}
