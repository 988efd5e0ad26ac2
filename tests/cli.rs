//! What a person at a terminal gets: exit codes, messages, help, and nothing half done. The real
//! program throughout.

// A test that fails shall panic, helper or not.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kubexm::bundle::lock::{ChecksumSource, FileFormat, LockedFile};
use kubexm::bundle::{Blobs, Bundle, BundleError, Lock, PackOptions, write, write_until};
use kubexm::event::Events;
use kubexm::fetch::{Cache, FetchError};
use kubexm::spec::{Arch, Digest, Version};
use wiremock::matchers::{method, path_regex};
use wiremock::{Mock, MockServer, ResponseTemplate};

fn kubexm() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
    command.env_remove("KUBEXM_CACHE").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = kubexm().args(arguments).output().unwrap();
    let (out, err) = (
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    );
    assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    (status.code(), out, err)
}

struct InMemory(BTreeMap<Digest, Vec<u8>>);

impl Blobs for InMemory {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        Ok(Box::new(std::io::Cursor::new(self.0[digest].clone())))
    }
}

/// Content that does not get smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 7u64;
    let step = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as u8
    };
    (0..length).map(step).collect()
}

fn example(files: usize, length: usize) -> (Lock, InMemory) {
    let content = noise(length);
    let file = |at: usize| LockedFile {
        component: format!("part{at:04}"),
        version: Version::new(1, 0, 0),
        arch: Arch::Amd64,
        file_name: format!("part{at:04}"),
        url: "https://dl.example/part".parse().unwrap(),
        size: length as u64,
        digest: Digest::of(&content),
        checksum: ChecksumSource::Pinned,
        format: FileFormat::Binary,
        members: Vec::new(),
    };
    let lock = Lock {
        lock_version: Lock::VERSION,
        name: "example".into(),
        kubernetes: vec![Version::new(1, 36, 3)],
        architectures: vec![Arch::Amd64],
        files: (0..files).map(file).collect(),
        images: Vec::new(),
        packages: Vec::new(),
        kubeadm: Vec::new(),
    };
    let blobs = [(Digest::of(&content), content)];
    (lock, InMemory(blobs.into()))
}

const OPTIONS: PackOptions = PackOptions {
    level: 1,
    threads: 1,
};

fn bundle(folder: &Path, files: usize) -> PathBuf {
    let path = folder.join("small.tar.zst");
    let (lock, blobs) = example(files, 5000);
    write(&path, &lock, &blobs, OPTIONS, &Events::silent()).unwrap();
    path
}

/// Names in a folder, hidden ones too.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    entries.map(|e| name(e).into_string().unwrap()).collect()
}

#[test]
fn exit_codes_tell_the_kind_of_failure() {
    let folder = tempfile::tempdir().unwrap();
    let small = bundle(folder.path(), 1).display().to_string();
    let cluster = folder.path().join("cluster.yaml").display().to_string();
    std::fs::write(&cluster, run(&["config", "init"]).1).unwrap();
    let manifest = "manifests/kubernetes-1.36.yaml";
    for (code, arguments) in [
        (0, vec!["--version"]),
        (0, vec!["config", "validate", "-f", &cluster]),
        (0, vec!["bundle", "verify", &small]),
        (2, vec![]),
        (2, vec!["instal"]),
        (2, vec!["bundle"]),
        (2, vec!["bundle", "verify"]),
        (2, vec!["install", "--bundle", &small]),
        (2, vec!["bundle", "list", &small, "--output", "xml"]),
        (
            2,
            vec![
                "bundle", "build", "-f", manifest, "-o", "x", "--level", "20",
            ],
        ),
        (2, vec!["config", "schema", "cloud"]),
        (2, vec!["config", "validate", "-f", "/nowhere.yaml"]),
        (2, vec!["config", "validate", "-f", "/"]),
        (3, vec!["bundle", "verify", "/nowhere.tar.zst"]),
        (
            3,
            vec![
                "bundle",
                "build",
                "-f",
                manifest,
                "-o",
                "/proc/kubexm/b.tar.zst",
            ],
        ),
        (
            3,
            vec![
                "bundle",
                "build",
                "-f",
                manifest,
                "-o",
                "/dev/null/b.tar.zst",
            ],
        ),
        (3, vec!["plan", "--bundle", &small, "-f", &cluster]),
    ] {
        let (got, _, err) = run(&arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {err}");
        assert!(code == 0 || !err.is_empty(), "{arguments:?}: {err}");
    }
    assert!(run(&["instal"]).2.contains("install"));
    let (_, _, err) = run(&[
        "bundle",
        "build",
        "-f",
        manifest,
        "-o",
        "/proc/kubexm/b.tar.zst",
    ]);
    assert!(
        err.contains("/proc/kubexm") && err.contains("--out"),
        "{err}"
    );
}

#[test]
fn help_of_every_command_fits_a_terminal() {
    let mut commands = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        let output = kubexm()
            .args(&arguments)
            .env("COLUMNS", "200")
            .output()
            .unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
        seen += 1;
        let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
        for line in listed.lines().take_while(|line| line.starts_with("  ")) {
            if let Some(name) = line
                .split_whitespace()
                .next()
                .filter(|name| *name != "help")
                && line.starts_with("  ")
                && !line.starts_with("   ")
            {
                commands.push([command.clone(), vec![name.to_owned()]].concat());
            }
        }
    }
    assert!(seen >= 13, "only {seen} commands were found");
}

#[test]
fn a_bundle_is_described_listed_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path(), 2).display().to_string();
    let (_, inspected, _) = run(&["bundle", "inspect", &path]);
    for part in ["example", &path, "1.36.3", "amd64", "files          2"] {
        assert!(inspected.contains(part), "{part}: {inspected}");
    }
    let (_, listed, _) = run(&["bundle", "list", &path]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let digest = &Digest::of(&noise(5000)).hex()[..12];
    assert!(
        listed.contains("part0001 1.0.0 amd64") && listed.contains(digest),
        "{listed}"
    );
    let (_, verified, _) = run(&["bundle", "verify", &path]);
    assert!(
        verified.contains("every blob is what its digest says"),
        "{verified}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    // More than a pipe holds.
    let path = bundle(folder.path(), 5000);
    for arguments in [vec!["bundle", "list"], vec!["bundle", "inspect"]] {
        let mut command = kubexm();
        command.args(arguments).arg(&path);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0u8; 4];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(err.is_empty(), "{err}");
        assert_eq!(output.status.code(), Some(0));
    }
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = kubexm()
        .args(["config", "init"])
        .stdout(full)
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("standard output cannot be written"), "{err}");
}

/// Every finding has the file's name, a line, a column and a hint.
fn findings(text: &[u8], arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, text).unwrap();
    let name = path.display().to_string();
    let (code, _, err) = run(&[arguments, &["-f", &name]].concat());
    assert_eq!(code, Some(2), "{err}");
    assert!(err.len() < 20_000, "{} bytes of message", err.len());
    let err = err.strip_prefix("error: ").unwrap();
    let lines: Vec<&str> = err.lines().collect();
    for pair in lines.chunks(2) {
        let rest = pair[0]
            .strip_prefix(&name)
            .unwrap_or_else(|| panic!("{err}"));
        let mut place = rest.split(':').skip(1).map(str::parse::<u32>);
        let is_whole_file = rest.starts_with(": is ");
        assert!(is_whole_file || place.next().unwrap().is_ok(), "{err}");
        assert!(is_whole_file || place.next().unwrap().is_ok(), "{err}");
        assert!(pair[1].starts_with("  hint: "), "{err}");
    }
    err.to_owned()
}

#[test]
fn strange_yaml_ends_in_messages_with_place_and_hint() {
    let good = run(&["config", "init"]).1;
    let laughs: String = (1..30)
        .map(|at| format!("a{at}: &a{at} [*a{0},*a{0},*a{0}]\n", at - 1))
        .collect();
    for (text, wanted) in [
        (b"".to_vec(), "is empty"),
        (b"# nothing\n---\n".to_vec(), "missing"),
        (
            good.replace("  hosts:", "\thosts:").into(),
            "never with tabs",
        ),
        (format!("a0: &a0 [lol]\n{laughs}").into(), "anchors"),
        (b"a: &a [*a]\n".to_vec(), "anchors"),
        (
            good.replace("    port: 22\n", "    port: 22\n    port: 23\n")
                .into(),
            "only once",
        ),
        (format!("{good}---\n{good}").into(), "one document"),
        ("a: b\n".repeat(2_500_000).into(), "1 MiB"),
        (
            format!("x: {}\n", "y".repeat(1_000_000)).into(),
            "unknown field",
        ),
        (
            format!("{}: 1\n", "y".repeat(100_000)).into(),
            "no valid YAML",
        ),
        (b"\"\\e[2J\\e]0;evil\\a\": 1\n".to_vec(), "unknown field"),
        (
            [good.as_bytes(), b"\n# \xff\xfe\n"].concat(),
            "no text in UTF-8",
        ),
        ("[".repeat(100_000).into(), "deep nesting"),
        (b"- a\n- b\n".to_vec(), "wants fields, not a list"),
        (b"42\n".to_vec(), "wants fields, not a number"),
        (b"a: 99999999999999999999999\n".to_vec(), "hint: "),
        (b"{".to_vec(), "no valid YAML"),
    ] {
        let words = findings(&text, &["config", "validate"]);
        assert!(words.contains(wanted), "wanted '{wanted}' in: {words}");
        assert!(!words.contains('\u{1b}'), "{words:?}");
    }
}

#[test]
fn all_findings_of_a_file_come_in_one_run_with_the_version_that_the_bundle_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let small = bundle(folder.path(), 1).display().to_string();
    let text = run(&["config", "init"])
        .1
        .replace("v1.36.3", "v1.35.1")
        .replace("podCIDR: 10.244.0.0/16", "podCIDR: 10.96.0.0/16")
        .replace("node[2:3]", "node[2:4]")
        .replace("    type: containerd", "    type: docker")
        .replace("    replicas: 2", "    replicas: many")
        .replace("    disableSwap: true", "    disableSwop: true");
    let wanted = [
        "the bundle lacks Kubernetes v1.35.1",
        "the bundle has v1.36.3",
        "overlap",
        "there is no host 'node4'",
        "'docker' is not supported yet",
        "wants a whole number from 1 to 100",
        "did you mean 'disableSwap'?",
    ];
    let out = folder.path().join("out").display().to_string();
    for command in [
        vec!["plan", "--bundle", &small],
        vec!["install", "--bundle", &small],
        vec!["install", "--dry-run", "--bundle", &small],
        vec!["render", "--out", &out, "--bundle", &small],
    ] {
        let words = findings(text.as_bytes(), &command);
        for part in wanted {
            assert!(
                words.contains(part),
                "{command:?}: wanted '{part}' in: {words}"
            );
        }
    }
    assert!(!Path::new(&out).exists() && !Path::new(".kubexm/demo").exists());
}

/// A file system of some kilobytes, away again when dropped; `None`, with the reason in the test's
/// output, where this machine does not let us mount one.
struct Tiny(tempfile::TempDir);

impl Tiny {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"]);
        let output = mount.arg(folder.path()).output();
        match output {
            Ok(output) if output.status.success() => Some(Self(folder)),
            refused => {
                eprintln!("SKIPPED: no tmpfs can be mounted here: {refused:?}");
                None
            }
        }
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_leaves_no_bundle_and_says_how_much_it_takes() {
    let Some(tiny) = Tiny::mount() else { return };
    let path = tiny.0.path().join("b.tar.zst");
    let (lock, blobs) = example(1, 2_000_000);
    let error = write(&path, &lock, &blobs, OPTIONS, &Events::silent()).unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, BundleError::Full { .. }), "{words}");
    for part in [&path.display().to_string(), "512.00 KiB free", "1.91 MiB"] {
        assert!(words.contains(part), "wanted '{part}' in: {words}");
    }
    assert_eq!(names(tiny.0.path()), [""; 0]);
}

#[test]
fn a_full_cache_says_how_much_is_missing_and_keeps_what_it_has() {
    let Some(tiny) = Tiny::mount() else { return };
    let cache = Cache::open(tiny.0.path()).unwrap();
    let content = noise(2_000_000);
    let digest = Digest::of(&content);
    let mut partial = cache.partial(&digest.hex()).unwrap();
    partial.expect(Some(content.len() as u64));
    let error = content
        .chunks(10_000)
        .find_map(|chunk| partial.append(chunk).err());
    let error = error.unwrap();
    let missing = match &error {
        FetchError::Full { missing, .. } => missing.unwrap(),
        other => panic!("{other}"),
    };
    assert!((1_400_000..1_600_000).contains(&missing), "{missing}");
    let words = error.to_string();
    assert!(
        words.contains(&tiny.0.path().display().to_string()),
        "{words}"
    );
    drop(partial);
    assert!(cache.size(&digest).is_none());
    assert!(cache.partial(&digest.hex()).unwrap().length() > 300_000);
    assert!(matches!(
        cache.insert(&content),
        Err(FetchError::Full { .. })
    ));
    assert_eq!(names(&tiny.0.path().join("blobs/sha256")), [""; 0]);
}

#[test]
fn packing_that_is_stopped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let (lock, blobs) = example(1, 3_000_000);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 3;
    let error = write_until(&path, &lock, &blobs, OPTIONS, &Events::silent(), &stop).unwrap_err();
    assert!(matches!(error, BundleError::Stopped), "{error}");
    assert_eq!(names(folder.path()), [""; 0]);
    write(&path, &lock, &blobs, OPTIONS, &Events::silent()).unwrap();
    Bundle::open(&path).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_build_ends_at_once_and_keeps_what_it_downloaded() {
    for signal in ["INT", "TERM"] {
        let server = MockServer::start().await;
        let content = noise(100_000);
        let sum = Digest::of(&content).hex();
        Mock::given(method("GET"))
            .and(path_regex(r"/kubectl\.sha256$"))
            .respond_with(ResponseTemplate::new(200).set_body_string(&sum))
            .mount(&server)
            .await;
        Mock::given(method("GET"))
            .and(path_regex(r"/kubectl$"))
            .respond_with(ResponseTemplate::new(200).set_body_bytes(content))
            .mount(&server)
            .await;
        // Everything else takes longer than anybody waits.
        Mock::given(method("GET"))
            .respond_with(ResponseTemplate::new(404).set_delay(Duration::from_secs(60)))
            .with_priority(9)
            .mount(&server)
            .await;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let uri = server.uri();
        let places = [
            "https://dl.k8s.io",
            "https://github.com",
            "http://deb.debian.org",
        ];
        let lines = places
            .map(|place| format!("  \"{place}\": \"{uri}\"\n"))
            .concat();
        let mirrors = format!("apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\ndownloads:\n{lines}");
        std::fs::write(at("mirrors.yaml"), mirrors).unwrap();
        let mut command = kubexm();
        command.args([
            "bundle",
            "build",
            "-f",
            "manifests/kubernetes-1.36.yaml",
            "-o",
        ]);
        command
            .arg(at("out/b.tar.zst"))
            .arg("--mirrors")
            .arg(at("mirrors.yaml"));
        command.arg("--cache").arg(at("cache"));
        let child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let blob = at("cache/blobs/sha256").join(&sum);
        let began = Instant::now();
        while !blob.exists() && began.elapsed().as_secs() < 20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let signalled = Instant::now();
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let output = output.await.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "SIG{signal}: {err}");
        assert!(
            signalled.elapsed().as_secs() < 5,
            "SIG{signal} took too long"
        );
        assert!(err.contains("run the same command again to go on"), "{err}");
        assert!(
            blob.exists(),
            "SIG{signal}: the download is not kept: {err}"
        );
        assert_eq!(names(&at("out")), [""; 0]);
    }
}
