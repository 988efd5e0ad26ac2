//! Seeded images and a real registry: it serves the published bytes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::example::InMemory;
use crate::sandbox::{Sandbox, path};
use kubexm_bundle::lock::{Descriptor, LockedImage, PlatformManifest};
use kubexm_bundle::{Blobs, BundleError, Lock};
use kubexm_engine::seed;
use kubexm_engine::seed::RegistryContent;
use kubexm_types::{Arch, Digest, ImageRef, Version};
use serde_json::json;

const DATA: &str = "/srv/registry";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn noise(seed: u64, size: u64) -> Vec<u8> {
    (0..size)
        .map(|i| (i.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

fn describe(blobs: &mut InMemory, media_type: &str, content: &[u8]) -> Descriptor {
    let (digest, size) = (blobs.add(content), content.len() as u64);
    Descriptor {
        media_type: media_type.to_owned(),
        digest,
        size,
    }
}

fn as_json(d: &Descriptor) -> serde_json::Value {
    json!({"mediaType": d.media_type, "digest": d.digest.to_string(), "size": d.size})
}

/// Returns an image of two platforms whose index names a third one that the bundle does not have.
fn image(blobs: &mut InMemory, name: &str, seed: u64) -> LockedImage {
    let mut platforms = Vec::new();
    let mut entries = Vec::new();
    for (at, arch) in [Arch::Amd64, Arch::Arm64].into_iter().enumerate() {
        let config =
            json!({"architecture": arch.to_string(), "os": "linux", "seed": seed}).to_string();
        let config = describe(
            blobs,
            "application/vnd.oci.image.config.v1+json",
            config.as_bytes(),
        );
        let layer = noise(10 * seed + at as u64, 300_000);
        let layer = describe(blobs, "application/vnd.oci.image.layer.v1.tar+gzip", &layer);
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": as_json(&config),
            "layers": [as_json(&layer)]});
        // Unusual spaces, as publishers write them: the bytes must not be rewritten.
        let manifest = describe(blobs, MANIFEST, format!(" {manifest:#}\n").as_bytes());
        let mut entry = as_json(&manifest);
        entry["platform"] = json!({"os": "linux", "architecture": arch.to_string()});
        entries.push(entry);
        platforms.push(PlatformManifest {
            indexes: Vec::new(),
            arch: Some(arch),
            manifest,
            blobs: vec![config, layer],
        });
    }
    entries.push(
        json!({"mediaType": MANIFEST, "digest": Digest::of(b"elsewhere").to_string(),
        "size": 9, "platform": {"os": "linux", "architecture": "s390x"}}),
    );
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
    let manifest = describe(blobs, INDEX, format!("{index:#}").as_bytes());
    LockedImage {
        name: ImageRef::parse(name).unwrap(),
        manifest,
        platforms,
        signature: None,
        unsigned: None,
        checksum: None,
    }
}

fn lock(images: Vec<LockedImage>) -> Lock {
    Lock {
        lock_version: Lock::VERSION,
        name: "example".into(),
        kubernetes: vec![Version::new(1, 36, 3)],
        architectures: vec![Arch::Amd64, Arch::Arm64],
        files: Vec::new(),
        images,
        packages: Vec::new(),
        kubeadm: Vec::new(),
        artifacts: Vec::new(),
        image_paths: Vec::new(),
        index: Default::default(),
    }
}

/// Sends missing blobs. Returns the number of blobs and bytes.
async fn fill(host: &Sandbox, lock: &Lock, blobs: &Arc<InMemory>) -> (usize, u64) {
    let content = RegistryContent::new(lock);
    let missing = seed::missing(host.host.as_ref(), &path(DATA), &content)
        .await
        .unwrap();
    let figures = (missing.blobs(), missing.bytes());
    if !missing.is_empty() {
        let source = Arc::clone(blobs) as Arc<dyn Blobs>;
        seed::seed(
            host.host.as_ref(),
            &path(DATA),
            missing,
            source,
            &host.events,
        )
        .await
        .unwrap();
    }
    figures
}

/// A running registry. It ends with the test.
struct Registry {
    child: Child,
    port: u16,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the registry of the lab, compiled from its Go module, or Debian's docker-registry.
fn program() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let cache =
        std::env::var_os("KUBEXM_LAB_CACHE").map_or(home.join(".cache/kubexm-lab"), PathBuf::from);
    let built = std::fs::read_dir(cache.join("upstream/bin"))
        .into_iter()
        .flatten()
        .flatten();
    let built = built.map(|entry| entry.path().join("registry"));
    let system = ["/usr/bin/docker-registry"].map(PathBuf::from);
    built.chain(system).find(|program| program.is_file())
}

impl Registry {
    fn over(host: &Sandbox, program: &PathBuf) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let data = host.at(DATA);
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem: {{rootdirectory: {}}}\n  maintenance: {{readonly: {{enabled: true}}}}\n\
             http: {{addr: '127.0.0.1:{port}'}}\n",
            data.display()
        );
        host.write("/etc/registry.yml", &config);
        let child = std::process::Command::new(program)
            .arg("serve")
            .arg(host.at("/etc/registry.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let registry = Self { child, port };
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return registry;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{} does not listen", program.display());
    }

    /// Returns the status line with the headers, and the body.
    fn get(&self, path: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "GET /v2/{path} HTTP/1.0\r\nHost: localhost\r\nAccept: {INDEX}\r\nAccept: {MANIFEST}\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        (head, answer.split_off(end + 4))
    }
}

fn assert_served(registry: &Registry, lock: &Lock, blobs: &InMemory) {
    for image in &lock.images {
        let repository = seed::repository(&image.name);
        let top = &image.manifest;
        for reference in [image.name.tag().unwrap().to_owned(), top.digest.to_string()] {
            let (head, body) = registry.get(&format!("{repository}/manifests/{reference}"));
            assert!(
                head.contains("200 OK") && head.contains(INDEX),
                "{reference}: {head}"
            );
            assert_eq!(
                body, blobs.0[&top.digest],
                "{reference} is not what was published"
            );
        }
        for platform in &image.platforms {
            let digest = platform.manifest.digest;
            let (head, body) = registry.get(&format!("{repository}/manifests/{digest}"));
            assert!(head.contains("200 OK"), "{head}");
            assert_eq!(body, blobs.0[&digest]);
            for blob in &platform.blobs {
                let (head, body) = registry.get(&format!("{repository}/blobs/{}", blob.digest));
                assert!(head.contains("200 OK"), "{head}");
                assert_eq!(body, blobs.0[&blob.digest]);
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs a registry program: tests/lab/upstream/build, or the package docker-registry"]
async fn registry_serves_the_published_bytes_of_seeded_images() {
    let program = program().expect("no registry program");
    let host = Sandbox::new();
    let mut blobs = InMemory::default();
    let names = [
        "registry.k8s.io/pause:3.10",
        "localhost:5000/team/pause:3.10",
        "ghcr.io/a/b/c:v1",
    ];
    let images = names
        .iter()
        .zip([1, 1, 2])
        .map(|(name, seed)| image(&mut blobs, name, seed));
    let mut lock = lock(images.collect());
    let blobs = Arc::new(blobs);
    // Two of the images differ only in their names: their blobs are sent once.
    assert_eq!(fill(&host, &lock, &blobs).await.0, 14);
    assert_eq!(
        fill(&host, &lock, &blobs).await,
        (0, 0),
        "a second seeding sends something"
    );
    let registry = Registry::over(&host, &program);
    assert_served(&registry, &lock, &blobs);
    let (head, _) = registry.get("registry.k8s.io/pause/manifests/3.9");
    assert!(head.contains("404"), "{head}");
    // The tag moves under the running registry, as with a newer bundle; digests stay.
    let old = lock.images[0].manifest.digest;
    let mut more = InMemory(blobs.0.clone());
    lock.images[0] = image(&mut more, names[0], 9);
    let blobs = Arc::new(more);
    assert_eq!(fill(&host, &lock, &blobs).await.0, 7);
    assert_served(&registry, &lock, &blobs);
    let (head, _) = registry.get(&format!("registry.k8s.io/pause/manifests/{old}"));
    assert!(head.contains("200 OK"), "{head}");
}

/// A source that fails in the middle of a blob, after the receiver has created its directory.
struct Failing {
    blobs: Arc<InMemory>,
    at: Digest,
    data: PathBuf,
}

fn staged(data: &Path) -> usize {
    // The first receiver creates the directory.
    let entries = std::fs::read_dir(data).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".kubexm"))
        .count()
}

impl Blobs for Failing {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        struct Broken(PathBuf);
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                for _ in 0..6000 {
                    if staged(&self.0) > 0 {
                        return Err(std::io::Error::other("the bundle's disk is gone"));
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                panic!("no receiver started within 60 seconds")
            }
        }
        let whole = self.blobs.open(digest)?;
        if *digest == self.at {
            let broken = Broken(self.data.clone());
            return Ok(Box::new(whole.take(100_000).chain(broken)));
        }
        Ok(whole)
    }
}

/// A source with bytes that do not match the digest.
struct Lying(Arc<InMemory>);

impl Blobs for Lying {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let mut bytes = Vec::new();
        self.0.open(digest)?.read_to_end(&mut bytes).unwrap();
        bytes[0] ^= 1;
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }
}

#[tokio::test]
async fn seeding_repairs_what_a_killed_seeding_left() {
    let host = Sandbox::new();
    let mut blobs = InMemory::default();
    let lock = lock(vec![image(&mut blobs, "registry.k8s.io/pause:3.10", 1)]);
    let blobs = Arc::new(blobs);
    let (content, data) = (RegistryContent::new(&lock), path(DATA));
    let layer = lock.images[0].platforms[1].blobs[1].clone();
    let blob = |digest: &Digest| {
        let hex = digest.hex();
        host.at(&format!(
            "{DATA}/docker/registry/v2/blobs/sha256/{}/{hex}/data",
            &hex[..2]
        ))
    };
    let staged = || staged(&host.at(DATA));
    let sources: [Arc<dyn Blobs>; 2] = [
        Arc::new(Lying(Arc::clone(&blobs))),
        Arc::new(Failing {
            blobs: Arc::clone(&blobs),
            at: layer.digest,
            data: host.at(DATA),
        }),
    ];
    for source in sources {
        let missing = seed::missing(host.host.as_ref(), &data, &content)
            .await
            .unwrap();
        let result = seed::seed(host.host.as_ref(), &data, missing, source, &host.events).await;
        assert!(result.is_err());
        assert!(
            !blob(&layer.digest).exists(),
            "a blob got its name that is not whole"
        );
        assert!(
            !host
                .at(&format!("{DATA}/docker/registry/v2/repositories"))
                .exists(),
            "a tag appeared early"
        );
    }
    // A killed receiver may or may not delete its directory: this adds one as kill -9 leaves it.
    host.write(
        &format!("{DATA}/.kubexm-staging-killed/{}", layer.digest.hex()),
        "half a blob",
    );
    // Blobs that were complete before the interruption are in place; the incomplete one never is.
    let (sent, bytes) = fill(&host, &lock, &blobs).await;
    assert!((1..=7).contains(&sent) && bytes >= layer.size, "{sent}");
    assert_eq!(staged(), 0, "staging folders of killed receivers stay");
    // As after a crash: half a blob and half a link under their final names.
    std::fs::write(blob(&layer.digest), &blobs.0[&layer.digest][..1000]).unwrap();
    let tag = format!(
        "{DATA}/docker/registry/v2/repositories/registry.k8s.io/pause/_manifests/tags/3.10/current/link"
    );
    host.write(&tag, "sha256:00");
    assert_eq!(fill(&host, &lock, &blobs).await, (1, layer.size));
    assert_eq!(
        std::fs::read(blob(&layer.digest)).unwrap(),
        blobs.0[&layer.digest]
    );
    assert_eq!(host.read(&tag), lock.images[0].manifest.digest.to_string());
    assert_eq!(fill(&host, &lock, &blobs).await, (0, 0));
}
