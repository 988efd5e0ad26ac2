//! Bundles in real registries (CNCF distribution, in the versions of Debian and the lab), and in a test
//! registry that refuses what strict registries, or those with authentication, refuse.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use wiremock::matchers::{method, path_regex};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

/// A registry program that serves a directory.
pub struct Registry {
    child: Child,
    pub port: u16,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Registry {
    pub fn start(program: &Path, folder: &Path) -> Self {
        Self::with(program, folder, "")
    }

    /// Starts it with additional lines of configuration.
    fn with(program: &Path, folder: &Path, more: &str) -> Self {
        let port = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let config = folder.join("registry.yml");
        let data = folder.join("registry").display().to_string();
        let text = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {data}}}, delete: {{enabled: true}}}}\n\
             http: {{addr: \"127.0.0.1:{port}\"}}\n{more}\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(program);
        command.arg("serve").arg(&config);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let registry = Self { child, port };
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                Instant::now() < end,
                "{} does not answer",
                program.display()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        registry
    }

    /// Runs the garbage collection of the registry, including manifests without a tag.
    fn collect(program: &Path, folder: &Path) {
        let config = folder.join("registry.yml").display().to_string();
        let arguments = ["garbage-collect", "--delete-untagged", &config];
        tool(&program.display().to_string(), &arguments).unwrap();
    }

    fn place(&self, rest: &str) -> String {
        format!("oci://127.0.0.1:{}/{rest}", self.port)
    }
}

/// Returns the available registry programs. There must be at least one; `./test` builds one.
pub fn programs() -> Vec<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache = std::env::var_os("KUBEXM_LAB_CACHE");
    let cache = cache.map_or(home.join(".cache/kubexm-lab"), PathBuf::from);
    let built = std::fs::read_dir(cache.join("upstream/bin"))
        .into_iter()
        .flatten();
    let built = built.filter_map(|entry| Some(entry.ok()?.path().join("registry")));
    let debian = PathBuf::from("/usr/bin/docker-registry");
    let programs: Vec<_> = built
        .chain([debian])
        .filter(|path| path.is_file())
        .collect();
    assert!(
        !programs.is_empty(),
        "no registry program: `./test` brings them"
    );
    programs
}

#[test]
fn pulled_bundle_equals_the_pushed_one_byte_by_byte() {
    for program in programs() {
        let folder = tempfile::tempdir().unwrap();
        let (path, lock, _) = bundle(folder.path());
        let bundle = path.display().to_string();
        let registry = Registry::start(&program, folder.path());
        let cache = |name: &str| folder.path().join(name).display().to_string();
        let place = registry.place("team/bundles");
        let push = ["bundle", "push", &bundle, &place, "--cache", &cache("push")];
        let (code, said, err) = kubexm(&push);
        assert_eq!(code, Some(0), "{}: {err}", program.display());
        let blobs = lock.blobs().len();
        assert!(
            said.contains(&format!("sent     {blobs} of {blobs} blobs")),
            "{said}"
        );
        // The two platforms and the index of the complete image, one platform of the sparse one, and the
        // single manifest; not the index that names a missing platform.
        assert!(said.contains("images   5 "), "{said}{err}");
        assert!(
            !err.contains("does not take"),
            "there is no useless attempt: {err}"
        );
        let digest = said.split("digest   ").nth(1).unwrap();
        let digest = digest.lines().next().unwrap().to_owned();

        // A second push sends no blob, and the result is the same.
        let (code, again, err) = kubexm(&push);
        assert_eq!(code, Some(0), "{err}");
        assert!(
            again.contains(&digest) && again.contains("sent     0 of"),
            "{again}"
        );

        // Blobs of another repository are not sent to a new one.
        let second = registry.place("other/place:2");
        let mounting = [
            "bundle",
            "push",
            &bundle,
            &second,
            "--mount-from",
            "team/bundles",
        ];
        let (code, mounted, err) = kubexm(&[&mounting[..], &push[4..]].concat());
        assert_eq!(code, Some(0), "{err}");
        assert!(
            mounted.contains(&format!("sent     0 of {blobs}")),
            "{mounted}"
        );

        let tagged = registry.place("team/bundles:example");
        let pinned = registry.place(&format!("team/bundles@{digest}"));
        let original = std::fs::read(&path).unwrap();
        for (number, place) in [tagged.clone(), pinned].iter().enumerate() {
            let out = cache(&format!("back{number}.tar.zst"));
            let pulls = cache("pull");
            let (code, _, err) = kubexm(&["bundle", "pull", place, "-o", &out, "--cache", &pulls]);
            assert_eq!(code, Some(0), "{place}: {err}");
            assert!(
                std::fs::read(&out).unwrap() == original,
                "{place}: other bytes"
            );
            let beside = cache(&format!("back{number}.lock.yaml"));
            assert!(Lock::from_yaml(&std::fs::read_to_string(beside).unwrap()).unwrap() == lock);
        }
        // Images can be pulled from there by their published digests.
        for name in [WHOLE, SINGLE] {
            let image = lock.image(&name.parse().unwrap()).unwrap();
            let from = format!(
                "docker://127.0.0.1:{}/team/bundles@{}",
                registry.port, image.manifest.digest
            );
            let raw = tool("skopeo", &["inspect", "--tls-verify=false", "--raw", &from]).unwrap();
            assert_eq!(Digest::of(raw.as_bytes()), image.manifest.digest);
        }

        // After a garbage collection everything is still there.
        drop(registry);
        Registry::collect(&program, folder.path());
        let registry = Registry::start(&program, folder.path());
        let (place, out, pulls) = (
            registry.place("team/bundles:example"),
            cache("kept.tar.zst"),
            cache("kept"),
        );
        let (code, _, err) = kubexm(&["bundle", "pull", &place, "-o", &out, "--cache", &pulls]);
        assert_eq!(code, Some(0), "{}: {err}", program.display());
        assert!(std::fs::read(&out).unwrap() == original);
    }
}

/// Returns how many images and blobs the plan of `registry seed` sends.
fn planned(text: &str) -> (usize, usize) {
    let lines = text.lines().filter_map(|line| line.split_once(": gets "));
    let blobs = lines.map(|(_, rest)| rest.split(' ').next().unwrap());
    let blobs: Vec<usize> = blobs.map(|count| count.parse().unwrap()).collect();
    (blobs.len(), blobs.iter().sum())
}

/// The registry from which the hosts of a cluster file with `registry.type: external` pull images.
#[test]
fn external_registry_is_seeded() {
    for program in programs() {
        let folder = tempfile::tempdir().unwrap();
        let (path, lock, _) = bundle(folder.path());
        let users = folder.path().join("users");
        // The bcrypt hash of "open sesame".
        let hash = "$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";
        std::fs::write(&users, format!("team:{hash}\n")).unwrap();
        let users = users.display();
        let auth = format!("auth: {{htpasswd: {{realm: r, path: {users}}}}}");
        let registry = Registry::with(&program, folder.path(), &auth);
        let password = folder.path().join("password");
        let cluster = folder.path().join("cluster.yaml");
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  \
             hosts: [{{name: node1, address: 192.0.2.11}}]\n  roleGroups: {{control-plane: [node1]}}\n  \
             kubernetes: {{version: {}}}\n  registry: {{type: external, address: '127.0.0.1:{}', \
             project: site/mirror, username: team, passwordFile: {}}}\n",
            lock.kubernetes[0],
            registry.port,
            password.display()
        );
        std::fs::write(&cluster, text).unwrap();
        let (bundle, cluster) = (path.display().to_string(), cluster.display().to_string());
        let cache = folder.path().join("cache").display().to_string();
        let seed = [
            "registry", "seed", "--bundle", &bundle, "-f", &cluster, "--cache", &cache,
        ];
        let dry_run = || kubexm(&[&seed[..], &["--dry-run"]].concat());
        std::fs::write(&password, "wrong\n").unwrap();
        for (code, _, err) in [dry_run(), kubexm(&seed)] {
            assert_ne!(code, Some(0), "a wrong password seeds nothing");
            assert!(!err.contains("wrong"), "a password is never shown: {err}");
        }
        std::fs::write(&password, "open sesame\n").unwrap();
        std::fs::remove_dir_all(&cache).unwrap();
        // The first dry run sends nothing: the second one finds the same.
        for _ in 0..2 {
            let (code, said, err) = dry_run();
            assert_eq!((code, said.as_str()), (Some(0), ""), "{err}");
            assert_eq!(planned(&err), (3, 8), "{err}");
            let place = format!("    127.0.0.1:{}/site/mirror/", registry.port);
            assert!(
                err.contains(&format!("\n{place}registry.example/team/whole:1: gets ")),
                "{err}"
            );
            assert!(err.ends_with("\ndry run: nothing was touched\n"), "{err}");
            assert!(!Path::new(&cache).exists(), "a dry run needs no cache");
        }
        let (code, said, err) = kubexm(&seed);
        assert_eq!(code, Some(0), "{}: {err}", program.display());
        assert!(
            said.contains("3 images") && said.contains("sent     8 blobs"),
            "{said}"
        );
        let (code, again, err) = kubexm(&seed);
        assert_eq!(code, Some(0), "{err}");
        assert!(again.contains("sent     0 blobs"), "{again}");
        let (_, _, err) = dry_run();
        assert_eq!(err.matches(": has all blobs").count(), 3, "{err}");
        let raw = |repository: &str| {
            let from = format!(
                "docker://127.0.0.1:{}/site/mirror/{repository}",
                registry.port
            );
            let login = ["--creds", "team:open sesame"];
            let inspect = ["inspect", "--tls-verify=false", "--raw"];
            tool("skopeo", &[&inspect[..], &login, &[&from]].concat()).unwrap()
        };
        for (name, place) in [
            (WHOLE, "registry.example/team/whole:1"),
            (SINGLE, "registry.example_5000/single:v3"),
        ] {
            let image = lock.image(&name.parse().unwrap()).unwrap();
            assert_eq!(Digest::of(raw(place).as_bytes()), image.manifest.digest);
        }
        // This registry refuses an index with missing platforms: the tag names the available one.
        let sparse: Value = serde_json::from_str(&raw("docker.io/library/sparse:2.0")).unwrap();
        let image = lock.image(&SPARSE.parse().unwrap()).unwrap();
        assert_eq!(sparse["manifests"].as_array().unwrap().len(), 1);
        let digest = image.platforms[0].manifest.digest.to_string();
        assert_eq!(sparse["manifests"][0]["digest"], digest);
    }
}

#[test]
fn docker_login_is_used_for_a_registry() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _) = bundle(folder.path());
    let (bundle, cache) = (path.display().to_string(), folder.path().join("cache"));
    let cache = cache.display().to_string();
    let users = folder.path().join("users");
    // The bcrypt hash of "open sesame".
    let hash = "$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";
    std::fs::write(&users, format!("team:{hash}\n")).unwrap();
    let auth = format!(
        "auth: {{htpasswd: {{realm: r, path: {}}}}}",
        users.display()
    );
    let registry = Registry::with(&programs()[0], folder.path(), &auth);
    let place = registry.place("bundles:1");
    let push = |login: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_kubexm"))
            .args(["bundle", "push", &bundle, &place, "--cache", &cache])
            .env("DOCKER_CONFIG", folder.path().join(login))
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    for (login, secret) in [("right", "team:open sesame"), ("wrong", "team:guessed")] {
        use base64::Engine;
        let auth = base64::engine::general_purpose::STANDARD.encode(secret);
        let host = format!("127.0.0.1:{}", registry.port);
        let config = json!({"auths": {host: {"auth": auth}}});
        std::fs::create_dir(folder.path().join(login)).unwrap();
        let path = folder.path().join(login).join("config.json");
        std::fs::write(path, config.to_string()).unwrap();
    }
    for login in ["none", "wrong"] {
        let (code, said) = push(login);
        let hint = format!("docker login 127.0.0.1:{}", registry.port);
        assert!(code == Some(3) && said.contains(&hint), "{login}: {said}");
        assert!(!said.contains("guessed"), "{said}");
    }
    let (code, said) = push("right");
    assert_eq!(code, Some(0), "{said}");
    let out = folder.path().join("back.tar.zst").display().to_string();
    let (code, _, err) = kubexm(&["bundle", "pull", &place, "-o", &out, "--cache", &cache]);
    assert!(code == Some(3) && err.contains("401"), "{err}");
}

/// Forwards connections, and drops each of the first `drops` after a few bytes of the request.
fn dropping(to: u16, drops: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (client, server) = (client.unwrap(), TcpStream::connect(("127.0.0.1", to)));
            let server = server.unwrap();
            let (mut back, mut forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut forth));
            std::thread::spawn(move || {
                let limit = if number < drops { 40_000 } else { u64::MAX };
                let _ = std::io::copy(&mut (&client).take(limit), &mut &server);
                let _ = client.shutdown(std::net::Shutdown::Both);
                let _ = server.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    port
}

#[test]
fn interrupted_upload_is_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _) = bundle(folder.path());
    let (bundle, cache) = (path.display().to_string(), folder.path().join("cache"));
    let (cache, original) = (cache.display().to_string(), std::fs::read(&path).unwrap());
    let registry = Registry::start(&programs()[0], folder.path());
    let place = format!("oci://127.0.0.1:{}/bundles:1", dropping(registry.port, 8));
    let (code, _, err) = kubexm(&["bundle", "push", &bundle, &place, "--cache", &cache]);
    assert_eq!(code, Some(0), "{err}");
    let out = folder.path().join("back.tar.zst").display().to_string();
    let (place, pulls) = (registry.place("bundles:1"), format!("{cache}-2"));
    let (code, _, err) = kubexm(&["bundle", "pull", &place, "-o", &out, "--cache", &pulls]);
    assert_eq!(code, Some(0), "{err}");
    assert!(std::fs::read(&out).unwrap() == original);
}

/// A test registry that has every blob, and answers requests for manifests as configured: by tag, and by
/// digest.
async fn answering(by_tag: u16, by_digest: u16) -> MockServer {
    let server = MockServer::start().await;
    let here = ResponseTemplate::new(200);
    let blobs = Mock::given(method("HEAD")).and(path_regex("/blobs/"));
    blobs.respond_with(here).mount(&server).await;
    for (place, status) in [("/manifests/sha256:", by_digest), ("/manifests/1", by_tag)] {
        let body = r#"{"errors":[{"code":"MANIFEST_INVALID","message":"no such thing here"}]}"#;
        let answer = ResponseTemplate::new(status)
            .insert_header("location", "/v2/bundles/manifests/1")
            .set_body_string(body);
        let manifests = Mock::given(method("PUT")).and(path_regex(place));
        manifests.respond_with(answer).mount(&server).await;
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_that_refuses_artifacts_gets_the_whole_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _) = bundle(folder.path());
    let (bundle, cache) = (path.display().to_string(), folder.path().join("cache"));
    let cache = cache.display().to_string();
    let mut all = String::new();
    for (by_tag, by_digest, code) in [
        // It accepts the artifact manifest, but neither Docker's manifests nor indexes.
        (201, 400, 0),
        (400, 201, 3),
        (405, 201, 3),
        (403, 201, 3),
    ] {
        let server = answering(by_tag, by_digest).await;
        let place = format!("oci://{}/bundles:1", server.address());
        let push = ["bundle", "push", &bundle, &place, "--cache", &cache];
        let (got, said, err) = kubexm(&push);
        assert_eq!(got, Some(code), "{by_tag} {by_digest}: {said}{err}");
        let lines = err.lines().filter(|line| !line.starts_with("upload "));
        all += &format!("=== {by_tag} {by_digest}\n");
        all.extend(lines.map(|line| format!("{line}\n")));
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @"
    === 201 400
    == push
    warning: docker.io/library/sparse:2.0: the registry does not take its manifest (status 400: no such thing here); the pushed bundle contains the image, but it cannot be pulled separately
    warning: registry.example/team/whole:1: the registry does not take its manifest (status 400: no such thing here); the pushed bundle contains the image, but it cannot be pulled separately
    warning: registry.example:5000/single:v3: the registry does not take its manifest (status 400: no such thing here); the pushed bundle contains the image, but it cannot be pulled separately
    === 400 201
    == push
    warning: 127.0.0.1:[port]/bundles:1.images: the registry refuses an index of the images (status 400: no such thing here); its garbage collector may delete their manifests, but not the bundle
    error: the bundle: the registry refuses it: status 400: no such thing here
    === 405 201
    == push
    error: 127.0.0.1:[port]/bundles:1.images: 127.0.0.1:[port]/bundles:1 answered 405
    hint: the registry does not accept pushes: it may be read-only or a mirror: no such thing here
    === 403 201
    == push
    error: 127.0.0.1:[port]/bundles:1.images: 127.0.0.1:[port]/bundles:1 answered 403
    hint: log in with `docker login 127.0.0.1:[port]` as a user with permission to push: no such thing here
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn artifact_that_is_not_a_bundle_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("b.tar.zst").display().to_string();
    let cache = folder.path().join("cache").display().to_string();
    let document = |media_type: &str, size: u64| {
        json!({"mediaType": media_type, "digest": Digest::of(b"missing"), "size": size,
            "annotations": {"io.kubexm.document": "x"}})
    };
    let manifest = |layers: Vec<Value>| {
        json!({"schemaVersion": 2, "mediaType": format!("{OCI}.manifest.v1+json"),
            "artifactType": "application/vnd.kubexm.transport.v1", "layers": layers})
    };
    let image = json!({"schemaVersion": 2, "mediaType": format!("{OCI}.manifest.v1+json")});
    let mut all = String::new();
    for top in [
        image,
        manifest(vec![]),
        manifest(vec![document("a/b", 1 << 40)]),
        manifest(vec![document("a/b", 1); 40]),
        manifest(vec![document("a/b", 1)]),
    ] {
        let server = MockServer::start().await;
        let kind = format!("{OCI}.manifest.v1+json");
        let answer = ResponseTemplate::new(200).set_body_raw(top.to_string(), &kind);
        let manifests = Mock::given(method("GET")).and(path_regex("/manifests/1$"));
        manifests.respond_with(answer).mount(&server).await;
        let place = format!("oci://{}/bundles:1", server.address());
        let (code, _, err) = kubexm(&["bundle", "pull", &place, "-o", &out, "--cache", &cache]);
        assert_eq!(code, Some(3), "{err}");
        all += &err;
        assert!(!Path::new(&out).exists());
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @"
    == pull
    error: 127.0.0.1:[port]/bundles:1: is not a bundle that `kubexm bundle push` wrote
    == pull
    error: 127.0.0.1:[port]/bundles:1: has no index.json
    == pull
    error: 127.0.0.1:[port]/bundles:1: has a document whose size exceeds the limit
    hint: do not use this bundle
    == pull
    error: 127.0.0.1:[port]/bundles:1: names more documents than a bundle has
    hint: do not use this bundle
    == pull
    error: 127.0.0.1:[port]/bundles:1 ffa63583dfa6: http://127.0.0.1:[port]/v2/bundles/blobs/sha256:ffa63583dfa6706b87d284b86b0d693a161e4840aad2c5cf6b5d27c3b9621f7d answered 404
    hint: check that the image and the tag exist
    ");
}
