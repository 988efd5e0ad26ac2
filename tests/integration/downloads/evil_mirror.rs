//! A mirror that serves other programs and images than their publishers, while the publishers are out of reach.

use std::process::Command;

use super::*;
use crate::example::example;
use kubexm_bundle::{Level, Lock, PackOptions, Placement, write};

const CRI_DOCKERD: &str = "cri-dockerd-0.4.0.amd64.tgz";
const KUBEADM: &str = "/release/v1.36.3/bin/linux/amd64/kubeadm";

/// The mirror, and a directory with a manifest and a mirror file.
struct Evil {
    mirror: Origin,
    folder: tempfile::TempDir,
}

impl Evil {
    /// Starts the mirror. Its kubeadm is a script that leaves a file where it runs; it serves the SHA-256 of
    /// everything, and no signature.
    async fn start() -> Self {
        let mirror = Origin::start(Rules::default()).await;
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join("marker");
        let script = format!("#!/bin/sh\necho \"$(id -u) $*\" >>{}\n", marker.display());
        for name in ["kubeadm", "kubelet", "kubectl"] {
            let place = KUBEADM.replace("kubeadm", name);
            mirror.put(
                &format!("{place}.sha256"),
                Digest::of(script.as_bytes()).hex(),
            );
            mirror.put(&place, script.clone());
        }
        let release = format!("/Mirantis/cri-dockerd/releases/download/v0.4.0/{CRI_DOCKERD}");
        mirror.put(&release, "not the archive of Mirantis");
        put_image(&mirror, b"a layer");
        put_image_at(&mirror, "pause", "3.10", b"another layer");
        let manifest = "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {name: t}\nspec:\n  architectures: [amd64]\n  kubernetes: {versions: [\"1.36.3\"]}\n  components: {cri-dockerd: \"0.4.0\"}\n";
        std::fs::write(folder.path().join("manifest.yaml"), manifest).unwrap();
        Self { mirror, folder }
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs `kubexm bundle` without a way to any publisher. Returns its standard error, and whether the mirror's
    /// script ran.
    async fn bundle(&self, mirrors: &str, arguments: &[&str]) -> (bool, String) {
        let uri = self.mirror.uri();
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\n{mirrors}downloads:\n  https://dl.k8s.io: {uri}\n  https://github.com: {uri}\nregistries:\n  registry.k8s.io: {uri}\n  registry.example: {uri}\n"
        );
        std::fs::write(self.at("mirrors.yaml"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
        command.arg("bundle").args(arguments);
        command.args([
            "--mirrors",
            &self.at("mirrors.yaml"),
            "--cache",
            &self.at("cache"),
        ]);
        // The publishers have HTTPS addresses and the mirror has not; port 1 refuses connections.
        for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            command.env(name, "http://127.0.0.1:1");
        }
        command
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1");
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{printed}");
        (self.folder.path().join("marker").exists(), printed)
    }

    async fn lock(&self, mirrors: &str) -> (bool, String) {
        let (manifest, lock) = (self.at("manifest.yaml"), self.at("lock.yaml"));
        let ran = self
            .bundle(mirrors, &["lock", "-f", &manifest, "-o", &lock])
            .await;
        assert!(!Path::new(&lock).exists());
        ran
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_of_a_mirror_is_refused_without_its_publisher_and_never_runs() {
    let evil = Evil::start().await;
    let (ran, printed) = evil.lock("").await;
    assert!(!ran, "{printed}");
    // Which of the files fails first is not certain.
    let kubernetes = "cannot ask the publisher dl.k8s.io for https://dl.k8s.io/release/v1.36.3/";
    let docker = "cannot ask the publisher github.com for https://github.com/Mirantis/";
    assert!(
        printed.contains(kubernetes) || printed.contains(docker),
        "{printed}"
    );
    for way_out in [
        "make ",
        " reachable",
        "`checksums: mirror` in the mirrors file",
    ] {
        assert!(printed.contains(way_out), "{way_out}: {printed}");
    }
    // The digest of the first download does not come from a mirror, so it is not asked.
    let asked = evil.mirror.seen("");
    assert!(
        asked.iter().all(|seen| !seen.path.ends_with(CRI_DOCKERD)),
        "{asked:?}"
    );
}

/// `checksums: mirror` trusts the mirror for digests, not for the missing signature.
#[tokio::test(flavor = "multi_thread")]
async fn unsigned_program_of_a_trusted_mirror_is_refused_and_never_runs() {
    let evil = Evil::start().await;
    let (ran, printed) = evil.lock("checksums: mirror\n").await;
    assert!(!ran, "{printed}");
    for part in [
        "requires a signature of krel-staging@k8s-releng-prod.iam.gserviceaccount.com",
        "and there is none",
        "`{prefix: dl.k8s.io, mode: ignore}`",
        "`allowUnsigned: [dl.k8s.io]` in the mirrors file",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    // Both settings together are the user's decision: the script runs, and is not kubeadm.
    let allowed = "checksums: mirror\nallowUnsigned: [dl.k8s.io]\n";
    let (_, printed) = evil.lock(allowed).await;
    assert!(!printed.contains("requires a signature"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_of_a_mirror_is_refused_without_its_publisher() {
    let evil = Evil::start().await;
    let bundle = evil.at("b.tar.zst");
    let (mut lock, blobs) = example(&[]);
    // Earlier programs read it, too.
    lock.lock_version = Lock::OLDEST_VERSION;
    let (storage, options) = (Placement::plain(&lock), PackOptions::new(Level::MIN, 1));
    write(
        Path::new(&bundle),
        &lock,
        &storage,
        &blobs,
        options,
        &Events::silent(),
    )
    .unwrap();
    let add = async |mirrors: &str, image: &str| {
        let out = evil.at("new.tar.zst");
        let arguments = ["add", &bundle, "--image", image, "-o", &out];
        let (_, printed) = evil.bundle(mirrors, &arguments).await;
        assert!(!Path::new(&out).exists());
        printed
    };
    for (image, place) in [
        (
            "registry.k8s.io/pause:3.10",
            "registry.k8s.io/v2/pause/manifests/3.10",
        ),
        (
            "registry.example/team/app:1",
            "registry.example/v2/team/app/manifests/1",
        ),
    ] {
        let (publisher, _) = image.split_once('/').unwrap();
        let printed = add("", image).await;
        let asked = format!("{image}: cannot ask the publisher {publisher} for https://{place}");
        assert!(printed.contains(&asked), "{printed}");
        assert!(
            printed.contains("`checksums: mirror` in the mirrors file"),
            "{printed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_download_comes_from_the_publisher_only() {
    let (publisher, mirror) = (
        Origin::start(Rules::default()).await,
        Origin::start(Rules::default()).await,
    );
    publisher.put("/file", "the publisher's file");
    mirror.put("/file", "the mirror's file");
    let first = async |checksums, url: &str| {
        let reader = Reader::with(&mirror, |mirrors| {
            mirrors.checksums = checksums;
            let list = vec![mirror.uri()];
            let dead = "http://127.0.0.1:1".to_owned();
            mirrors.downloads = [(publisher.uri(), list.clone()), (dead, list)].into();
        });
        let wanted = Wanted {
            label: "file".into(),
            url: url.parse().unwrap(),
            expected: None,
            size: None,
        };
        reader.http.download_first_seen(&wanted).await
    };
    let url = format!("{}/file", publisher.uri());
    let (digest, _, by) = first(Checksums::Origin, &url).await.unwrap();
    assert_eq!(digest, Digest::of(b"the publisher's file"));
    assert_eq!(by, StatedBy::Publisher);
    let gone = "http://127.0.0.1:1/file";
    let error = first(Checksums::Origin, gone).await.unwrap_err();
    assert!(matches!(error, FetchError::Publisher { .. }), "{error}");
    assert!(mirror.seen("/file").is_empty());
    let (digest, _, by) = first(Checksums::Mirror, gone).await.unwrap();
    assert_eq!(digest, Digest::of(b"the mirror's file"));
    assert_eq!(by, StatedBy::Mirror);
}
