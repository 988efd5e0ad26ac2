//! Full disks and interrupted builds.

use super::*;
use kubexm_fetch::record::Version;

/// A file system of 512 KiB. It is unmounted when dropped.
struct Tiny(tempfile::TempDir);

impl Tiny {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"]);
        let output = mount.arg(folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(folder)
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
#[ignore = "mounts a tmpfs, which needs root"]
fn full_disk_leaves_no_bundle_and_reports_the_required_space() {
    let tiny = Tiny::mount();
    let path = tiny.0.path().join("b.tar.zst");
    let (lock, blobs) = alike(1, 2_000_000);
    let error = write_plain(&path, &lock, &blobs, OPTIONS).unwrap_err();
    let printed = error.to_string();
    assert!(matches!(error, BundleError::Full { .. }), "{printed}");
    let _filters = filters();
    insta::assert_snapshot!(printed, @"
    [folder]/b.tar.zst: the disk is full: 512.00 KiB are free, and the bundle needs up to 1.91 MiB
    Nothing was written; downloads are kept.
    hint: free some space, or name another file with --out
    ");
    assert_eq!(names(tiny.0.path()), [""; 0]);
}

#[test]
#[ignore = "mounts a tmpfs, which needs root"]
fn full_cache_reports_the_missing_space_and_keeps_the_partial_download() {
    let tiny = Tiny::mount();
    // The mount point itself is writable by all users.
    let folder = tiny.0.path().join("cache");
    let cache = Cache::open(&folder).unwrap();
    let content = noise(2_000_000);
    let digest = Digest::of(&content);
    let partial = cache.partial(&digest.hex()).unwrap();
    let version = Version {
        total: Some(content.len() as u64),
        ..Version::default()
    };
    // Before the first byte, if the size is known.
    let error = partial.set_version(version).unwrap_err();
    assert_eq!(partial.length(), 0);
    let missing = match &error {
        FetchError::Full { missing, .. } => missing.unwrap(),
        other => panic!("{other}"),
    };
    assert!((1_400_000..1_600_000).contains(&missing), "{missing}");
    let shown = format!("{:.2} MiB", missing as f64 / 1_048_576.0);
    let printed = error.to_string().replace(&shown, "[size]");
    let _filters = filters();
    insta::assert_snapshot!(printed, @"
    the cache at [folder]/cache/partial/b002201f3c42c527453375b0f372ac250a41014f223a2a2e68ccdbfa8e27ceb9: the disk is full: at least [size] more are required
    hint: free some space and run the same command again, which continues the download; or name another directory with --cache
    ");
    partial.set_version(Version::default()).unwrap();
    let error = content
        .chunks(10_000)
        .find_map(|chunk| partial.append(chunk).err());
    let error = error.unwrap();
    assert!(
        matches!(error, FetchError::Full { missing: None, .. }),
        "{error}"
    );
    drop(partial);
    assert!(cache.size(&digest).is_none());
    assert!(cache.partial(&digest.hex()).unwrap().length() > 300_000);
    assert!(matches!(
        cache.insert(&content),
        Err(FetchError::Full { .. })
    ));
    assert_eq!(names(&folder.join("blobs/sha256")), [""; 0]);
}

#[test]
fn interrupted_packing_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let (lock, blobs) = alike(1, 3_000_000);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 3;
    let error = write_until(
        &path,
        &lock,
        &Placement::plain(&lock),
        &blobs,
        OPTIONS,
        &Events::silent(),
        &stop,
    )
    .unwrap_err();
    assert!(matches!(error, BundleError::Stopped), "{error}");
    assert_eq!(names(folder.path()), [""; 0]);
    write_plain(&path, &lock, &blobs, OPTIONS).unwrap();
    Bundle::open(&path).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_build_ends_without_waiting_and_keeps_downloads() {
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
        // All other answers take much longer than the limit below.
        Mock::given(method("GET"))
            .respond_with(ResponseTemplate::new(404).set_delay(Duration::from_secs(3600)))
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
        let mirrors = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\nchecksums: mirror\ndownloads:\n{lines}"
        );
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
        let downloaded = async {
            while !blob.exists() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let limit = Duration::from_secs(120);
        let in_time = tokio::time::timeout(limit, downloaded).await;
        in_time.expect("kubectl is not in the cache after 2 minutes");
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        // It does not wait for the answers, which take an hour.
        let in_time = tokio::time::timeout(limit, output).await;
        let output = in_time.unwrap_or_else(|_| panic!("SIG{signal} did not end it"));
        let output = output.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "SIG{signal}: {err}");
        insta::allow_duplicates!(
            insta::assert_snapshot!(err.split_inclusive('\n').rev().take(2).collect::<Vec<_>>().into_iter().rev().collect::<String>(), @"
            error: stopped; nothing was written
            hint: run the same command again to go on: what was downloaded is kept
            ")
        );
        assert!(
            blob.exists(),
            "SIG{signal}: the download is not kept: {err}"
        );
        assert_eq!(names(&at("out")), [""; 0]);
    }
}
