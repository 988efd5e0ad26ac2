//! Bundles with tools and registries of others.

mod architectures;
mod charts;
mod export;
mod own;
pub mod registry;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use kubexm_bundle::arrange;
use kubexm_bundle::lock::{Descriptor, LockedImage, PlatformManifest};
use kubexm_bundle::{Level, Lock, PackOptions, analyze_gzip, write};
use kubexm_fetch::Cache;
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest};
use serde_json::{Value, json};

use crate::example::{InMemory, example};

const OCI: &str = "application/vnd.oci.image";
const DOCKER: &str = "application/vnd.docker.distribution";

/// Returns text that compresses partly, different for each seed.
fn text(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = Vec::new();
    while text.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend(format!("{:x} ", state % 5000).into_bytes());
    }
    text.truncate(length);
    text
}

fn descriptor(blobs: &mut InMemory, media_type: &str, content: &[u8]) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest: blobs.add(content),
        size: content.len() as u64,
    }
}

fn as_json(blob: &Descriptor) -> Value {
    json!({"mediaType": blob.media_type, "digest": blob.digest, "size": blob.size})
}

/// Returns a layer with one file, compressed like by Go's or zlib's encoder.
fn layer(seed: u64) -> (Vec<u8>, Digest) {
    let content = text(seed, 200_000);
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "etc/data", &content[..])
        .unwrap();
    let tar = tar.into_inner().unwrap();
    let recipe = gzip_exact::Recipe {
        header: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255],
        encoder: gzip_exact::Encoder::Go(gzip_exact::GoLevel::DEFAULT),
    };
    let mut gzip = recipe.writer();
    gzip.write_all(&tar).unwrap();
    (gzip.finish().unwrap(), Digest::of(&tar))
}

/// Returns one platform of an image with the media types of `family`.
fn platform(blobs: &mut InMemory, family: &str, arch: Arch, seed: u64) -> PlatformManifest {
    let docker = family == DOCKER;
    let (packed, diff_id) = layer(seed);
    let layer_type = if docker {
        "application/vnd.docker.image.rootfs.diff.tar.gzip".to_owned()
    } else {
        format!("{OCI}.layer.v1.tar+gzip")
    };
    let config_type = if docker {
        "application/vnd.docker.container.image.v1+json".to_owned()
    } else {
        format!("{OCI}.config.v1+json")
    };
    let manifest_type = if docker {
        format!("{DOCKER}.manifest.v2+json")
    } else {
        format!("{OCI}.manifest.v1+json")
    };
    let config = json!({
        "architecture": arch.name(), "os": "linux", "config": {"Entrypoint": ["/app"]},
        "created": "2026-01-01T00:00:00Z",
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created_by": format!("test {seed}")}],
    });
    let config = descriptor(blobs, &config_type, config.to_string().as_bytes());
    let layer = descriptor(blobs, &layer_type, &packed);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": manifest_type,
        "config": as_json(&config), "layers": [as_json(&layer)],
    });
    PlatformManifest {
        indexes: Vec::new(),
        arch: Some(arch),
        manifest: descriptor(blobs, &manifest_type, manifest.to_string().as_bytes()),
        blobs: vec![config, layer],
    }
}

/// Returns an image with an index. `elsewhere` names a platform that the bundle does not have.
fn indexed(
    blobs: &mut InMemory,
    name: &str,
    platforms: Vec<PlatformManifest>,
    elsewhere: bool,
) -> LockedImage {
    let entry = |p: &PlatformManifest| {
        let mut entry = as_json(&p.manifest);
        entry["platform"] = json!({"os": "linux", "architecture": p.arch.unwrap().name()});
        entry
    };
    let mut manifests: Vec<Value> = platforms.iter().map(entry).collect();
    if elsewhere {
        manifests.push(json!({
            "mediaType": format!("{OCI}.manifest.v1+json"), "size": 500,
            "digest": Digest::of(b"not carried"),
            "platform": {"os": "linux", "architecture": "s390x"},
        }));
    }
    let media_type = format!("{OCI}.index.v1+json");
    let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": manifests});
    LockedImage {
        name: name.parse().unwrap(),
        manifest: descriptor(blobs, &media_type, index.to_string().as_bytes()),
        platforms,
        signature: None,
        unsigned: None,
        checksum: None,
    }
}

const WHOLE: &str = "registry.example/team/whole:1";
const SPARSE: &str = "docker.io/library/sparse:2.0";
const SINGLE: &str = "registry.example:5000/single:v3";

/// Returns three images: a complete one with an index, a sparse one, and a manifest without index in Docker's
/// media types; and two files, one of them empty.
fn content() -> (Lock, InMemory) {
    let (mut lock, mut blobs) = example(&[text(99, 200_000), Vec::new()]);
    lock.architectures = vec![Arch::Amd64, Arch::Arm64];
    let both = vec![
        platform(&mut blobs, OCI, Arch::Amd64, 1),
        platform(&mut blobs, OCI, Arch::Arm64, 2),
    ];
    let whole = indexed(&mut blobs, WHOLE, both, false);
    let one = vec![platform(&mut blobs, OCI, Arch::Amd64, 3)];
    let sparse = indexed(&mut blobs, SPARSE, one, true);
    let platform = platform(&mut blobs, DOCKER, Arch::Amd64, 4);
    let single = LockedImage {
        name: SINGLE.parse().unwrap(),
        manifest: platform.manifest.clone(),
        platforms: vec![platform],
        signature: None,
        unsigned: None,
        checksum: None,
    };
    lock.images = vec![sparse, whole, single];
    lock.images.sort_by(|a, b| a.name.cmp(&b.name));
    (lock, blobs)
}

const OPTIONS: PackOptions<'_> = PackOptions::new(Level::DEFAULT, 2);

/// Returns a bundle of [`content`] as `bundle build` writes it, with decompressed layers and groups. It is
/// made once, because the search for the encoders takes a second.
fn bundle(folder: &Path) -> (PathBuf, Lock, InMemory) {
    type Made = (Vec<u8>, Lock, BTreeMap<Digest, Vec<u8>>);
    static MADE: OnceLock<Made> = OnceLock::new();
    let (bytes, lock, blobs) = MADE.get_or_init(|| {
        let (lock, blobs) = content();
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let events = Events::silent();
        let openings = analyze_gzip(&lock, &blobs, &cache, 2, &events, &|| false).unwrap();
        assert_eq!(openings.len(), 4, "every layer can be made again");
        let path = folder.path().join("b.tar.zst");
        let storage = arrange(&lock, &openings);
        write(&path, &lock, &storage, &blobs, OPTIONS, &events).unwrap();
        (std::fs::read(path).unwrap(), lock, blobs.0)
    });
    let path = folder.join("b.tar.zst");
    std::fs::write(&path, bytes).unwrap();
    (path, lock.clone(), InMemory(blobs.clone()))
}

fn kubexm(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kubexm"))
        .args(arguments)
        .env_remove("KUBEXM_CACHE")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    (output.status.code(), out, err)
}

/// Runs an external tool. Returns its output.
fn tool(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; `./test` installs it"));
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
