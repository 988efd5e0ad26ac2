//! The real program: killed while it downloads ranges, behind a real proxy, and with a custom CA.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;

/// A script in place of kubeadm, followed by many bytes.
const KUBEADM: &str = "#!/bin/sh
case $1-$2 in
version-*) echo v1.36.3 ;;
config-images) echo registry.k8s.io/team/app:1 ;;
esac
exit 0
";

/// A manifest and mirrors with which `bundle lock` downloads a kubeadm, two more programs and an image. It
/// fails, because it is not enough for a cluster. The tests are about what it has downloaded.
struct Build {
    folder: tempfile::TempDir,
    programs: [Vec<u8>; 3],
}

impl Build {
    fn of(origin: &Origin, scheme: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeadm = [KUBEADM.as_bytes(), &content(12 * MIB)].concat();
        let programs = [kubeadm, content(5000), content(6000)];
        put_image(origin, &layer());
        for (name, program) in ["kubeadm", "kubelet", "kubectl"].iter().zip(&programs) {
            let place = format!("/release/v1.36.3/bin/linux/amd64/{name}");
            origin.put(&format!("{place}.sha256"), Digest::of(program).hex());
            origin.put(&place, program.clone());
        }
        let manifest = "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {name: t}\nspec:\n  architectures: [amd64]\n  kubernetes: {versions: [\"1.36.3\"]}\n";
        std::fs::write(folder.path().join("manifest.yaml"), manifest).unwrap();
        let mirrors = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\nchecksums: mirror\nallowUnsigned: [dl.k8s.io, registry.k8s.io]\ndownloads:\n  https://dl.k8s.io: {scheme}://127.0.0.1:{}\nregistries:\n  registry.k8s.io: {scheme}://127.0.0.1:{}\n",
            origin.port, origin.port
        );
        std::fs::write(folder.path().join("mirrors.yaml"), mirrors).unwrap();
        Self { folder, programs }
    }

    fn replace_kubeadm(&mut self, origin: &Origin, program: Vec<u8>) {
        let place = "/release/v1.36.3/bin/linux/amd64/kubeadm";
        origin.put(&format!("{place}.sha256"), Digest::of(&program).hex());
        origin.put(place, program.clone());
        self.programs[0] = program;
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| name.to_lowercase().ends_with("_proxy"))
            {
                command.env_remove(name);
            }
        }
        let at = |name: &str| self.folder.path().join(name);
        command
            .args(["bundle", "lock", "-f"])
            .arg(at("manifest.yaml"));
        command.arg("-o").arg(at("lock.yaml"));
        command.arg("--mirrors").arg(at("mirrors.yaml"));
        command.arg("--cache").arg(at("cache"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end. Returns its standard error.
    async fn run(&self, mut command: Command) -> String {
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        String::from_utf8(output.await.unwrap().stderr).unwrap()
    }

    fn partial(&self) -> std::path::PathBuf {
        let name = Digest::of(&self.programs[0]).hex();
        self.folder.path().join("cache/partial").join(name)
    }

    /// Returns the last line of the large program's record.
    fn record(&self) -> Option<serde_json::Value> {
        let text = std::fs::read_to_string(self.partial().with_extension("record")).ok()?;
        serde_json::from_str(text.lines().last()?).ok()
    }

    fn has(&self, content: &[u8]) -> bool {
        let blobs = self.folder.path().join("cache/blobs/sha256");
        let path = blobs.join(Digest::of(content).hex());
        std::fs::read(path).is_ok_and(|bytes| bytes == content)
    }

    fn has_all(&self) -> bool {
        self.programs.iter().all(|program| self.has(program)) && self.has(&layer())
    }
}

/// Returns a layer that is large enough for ranges.
fn layer() -> Vec<u8> {
    content(5 * MIB + 1)
}

/// A process that is killed when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn build_continues_ranges_after_kill_9() {
    let origin = Origin::start(Rules {
        // More than the bytes after which the record is written.
        pause_after: Some(600 * 1024),
        tag: Some("\"v1\"".into()),
        ..Rules::default()
    })
    .await;
    let build = Build::of(&origin, "http");
    let mut running = Running(build.command().spawn().unwrap());
    let three_ranges = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let ranges = build.record().map(|record| record["there"].clone());
            match ranges.as_ref().and_then(|ranges| ranges.as_array()) {
                // Several ranges with gaps between them.
                Some(ranges) if ranges.len() >= 3 && build.partial().exists() => {
                    return ranges.clone();
                }
                _ => {}
            }
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(120), three_ranges).await;
    let there = in_time.expect("the build downloads no ranges");
    // SIGKILL.
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    let bytes = |range: &serde_json::Value| {
        (range[1].as_u64().unwrap() - range[0].as_u64().unwrap()) as usize
    };
    let kept: usize = there.iter().map(bytes).sum();
    origin.seen("");
    origin.rules(|rules| rules.pause_after = None);
    let said = build.run(build.command()).await;
    assert!(build.has(&build.programs[0]), "{said}");
    let seen = origin.seen("/kubeadm");
    let total = build.programs[0].len();
    assert!(
        asked(&seen, total) <= total - kept,
        "{kept} bytes were there: {seen:?}"
    );
    assert!(
        seen.iter().all(|seen| seen.header("if-range") == "\"v1\""),
        "{seen:?}"
    );
    assert!(!build.partial().exists() && build.record().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_builds_share_one_download_in_ranges() {
    let origin = Origin::start(Rules {
        rate: Some(5 * MIB),
        ..Rules::default()
    })
    .await;
    let build = Build::of(&origin, "http");
    let (one, other) = tokio::join!(build.run(build.command()), build.run(build.command()));
    assert!(build.has(&build.programs[0]), "{one}\n{other}");
    let seen = origin.seen("/kubeadm");
    let total = build.programs[0].len();
    assert_eq!(asked(&seen, total), total, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_in_place_of_kubeadm_cannot_change_this_machine() {
    let origin = Origin::start(Rules::default()).await;
    let mut build = Build::of(&origin, "http");
    let marker = build.folder.path().join("marker");
    let evil = KUBEADM.replace(
        "#!/bin/sh\n",
        &format!(
            "#!/bin/sh\nid -u >'{0}'; mkdir '{0}'; echo \"user $(id -u)\" >&2; ls /etc >&2\n",
            marker.display()
        ),
    );
    let evil = evil.replace("exit 0", "exit 1").into_bytes();
    build.replace_kubeadm(&origin, evil);
    let said = build.run(build.command()).await;
    assert!(!marker.exists(), "{said}");
    assert!(
        said.contains("kubeadm 1.36.3") && said.contains("user 65534"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_kubeadm_that_was_changed_is_not_executed() {
    let origin = Origin::start(Rules::default()).await;
    let build = Build::of(&origin, "http");
    build.run(build.command()).await;
    let blobs = build.folder.path().join("cache/blobs/sha256");
    let cached = blobs.join(Digest::of(&build.programs[0]).hex());
    std::fs::write(&cached, "#!/bin/sh\necho EXECUTED >&2\nexit 1\n").unwrap();
    let said = build.run(build.command()).await;
    assert!(!said.contains("EXECUTED"), "{said}");
    assert!(
        said.contains("it does not have the digest of its name") && said.contains("cache verify"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_ends_when_kubexm_is_killed() {
    let origin = Origin::start(Rules::default()).await;
    let mut build = Build::of(&origin, "http");
    build.replace_kubeadm(&origin, b"#!/bin/sh\nexec sleep 98763.5\n".to_vec());
    let mut running = Running(build.command().spawn().unwrap());
    let sleeps = || crate::isolation::processes("sleep 98763.5").len();
    crate::isolation::wait_until("kubeadm was not started", || sleeps() > 0);
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    crate::isolation::wait_until("kubeadm runs on", || sleeps() == 0);
}

/// A real proxy with its log.
struct Proxy {
    port: u16,
    folder: tempfile::TempDir,
    _running: Running,
}

impl Proxy {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let log = folder.path().join("log");
        let configuration = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nMaxClients 50\nLogLevel Connect\nLogFile \"{}\"\nBasicAuth user pass-of-the-proxy\n",
            log.display()
        );
        let path = folder.path().join("tinyproxy.conf");
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new("tinyproxy");
        command.arg("-d").arg("-c").arg(&path);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running(command.spawn().expect("tinyproxy, a Debian package"));
        for _ in 0..3000 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Self {
                    port,
                    folder,
                    _running: running,
                };
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("tinyproxy does not listen after 60 seconds");
    }

    fn address(&self) -> String {
        format!("http://user:pass-of-the-proxy@127.0.0.1:{}", self.port)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// A credential helper with a log of its requests.
struct Helper(std::path::PathBuf);

impl Helper {
    fn new(folder: &Path, port: u16) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder.join("helper");
        std::fs::create_dir(&folder).unwrap();
        let script = format!(
            "#!/bin/sh\nread name\necho \"$@\" \"$name\" >>'{}/asked'\necho '{{\"ServerURL\": \"x\", \"Username\": \"me\", \"Secret\": \"my-password\"}}'\n",
            folder.display()
        );
        let program = folder.join("docker-credential-of-the-test");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let config = format!(r#"{{"credHelpers": {{"127.0.0.1:{port}": "of-the-test"}}}}"#);
        std::fs::write(folder.join("config.json"), config).unwrap();
        Self(folder)
    }

    fn offer(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.0.display()));
        command.env("DOCKER_CONFIG", &self.0);
    }

    fn asked(&self) -> String {
        std::fs::read_to_string(self.0.join("asked")).unwrap_or_default()
    }
}

/// Returns a CA and a server certificate of it.
pub(super) fn authority() -> (String, rustls::ServerConfig) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let own = parameters.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(parameters, key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key.into())
        .unwrap();
    (own, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_and_ca_settings_apply_to_files_and_registries() {
    let (own, tls) = authority();
    let login = Some("Basic bWU6bXktcGFzc3dvcmQ=".to_owned());
    let rules = Rules {
        login,
        ..Rules::default()
    };
    let origin = Origin::start_tls(rules, tls).await;
    let build = Build::of(&origin, "https");
    let ca = build.folder.path().join("own.pem");
    std::fs::write(&ca, &own).unwrap();
    let said = build.run(build.command()).await;
    assert!(
        said.contains("certificate") && !build.has(&build.programs[1]),
        "{said}"
    );

    // Without credentials the files are downloaded and the image is not.
    let proxy = Proxy::start().await;
    let mut command = build.command();
    command
        .arg("--ca")
        .arg(&ca)
        .env("DOCKER_CONFIG", "/nowhere");
    command.env("HTTPS_PROXY", proxy.address());
    let said = build.run(command).await;
    assert!(
        said.contains("docker login") && !build.has(&layer()),
        "{said}"
    );

    let helper = Helper::new(build.folder.path(), origin.port);
    let mut command = build.command();
    command.arg("--ca").arg(&ca).args(["--output", "json"]);
    command.env("HTTPS_PROXY", proxy.address());
    helper.offer(&mut command);
    let said = build.run(command).await;
    assert_eq!(helper.asked(), format!("get 127.0.0.1:{}\n", origin.port));
    for secret in ["my-password", "bWU6bXktcGFzc3dvcmQ", "a-token-of"] {
        assert!(!said.contains(secret), "{said}");
    }
    assert!(build.has_all(), "{said}");
    assert!(!said.contains("pass-of-the-proxy"), "{said}");
    let tunnel = format!("CONNECT 127.0.0.1:{}", origin.port);
    assert!(proxy.log().contains(&tunnel), "{}", proxy.log());

    std::fs::remove_dir_all(build.folder.path().join("cache")).unwrap();
    std::fs::write(proxy.folder.path().join("log"), "").unwrap();
    let mut command = build.command();
    command.env("SSL_CERT_FILE", &ca);
    helper.offer(&mut command);
    command
        .env("HTTPS_PROXY", proxy.address())
        .env("NO_PROXY", "127.0.0.1");
    let said = build.run(command).await;
    assert!(build.has_all(), "{said}");
    assert_eq!(proxy.log(), "");

    // An identity token is sent in a form.
    std::fs::remove_dir_all(build.folder.path().join("cache")).unwrap();
    let login = "refresh_token=long-lived-secret";
    origin.rules(|rules| rules.login = Some(login.to_owned()));
    let place = format!("127.0.0.1:{}", origin.port);
    let config = format!(r#"{{"auths": {{"{place}": {{"identitytoken": "long-lived-secret"}}}}}}"#);
    std::fs::write(build.folder.path().join("config.json"), config).unwrap();
    let mut command = build.command();
    command
        .arg("--ca")
        .arg(&ca)
        .env("DOCKER_CONFIG", build.folder.path());
    let said = build.run(command).await;
    assert!(build.has_all(), "{said}");
    assert!(!said.contains("long-lived-secret"), "{said}");
}
