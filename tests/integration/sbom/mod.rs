//! SBOM and vulnerabilities: the real command on bundles with test images.

mod documents;
mod programs;
mod real_tools;
mod vulnerabilities;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use kubexm_bundle::arrange;
use kubexm_bundle::format::placement::{DecompressedGzip, DecompressedGzips};
use kubexm_bundle::lock::{Descriptor, FileFormat, LockedFile, LockedImage, PlatformManifest};
use kubexm_bundle::{EncoderCache, Level, Lock, PackOptions, Placement, analyze_gzip, write};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest};
use serde_json::Value;

use crate::example::{InMemory, example};

const OPTIONS: PackOptions<'_> = PackOptions::new(Level::FAST, 2);
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const DEBIAN: &str = "ID=debian\nVERSION_ID=\"12\"\n";
const ALPINE: &str = "ID=alpine\nVERSION_ID=3.20.3\n";

/// Keeps nothing.
struct Forgetful;

impl EncoderCache for Forgetful {
    fn recall(&self, _: &Digest) -> Option<Option<DecompressedGzip>> {
        None
    }
    fn keep(&self, _: &Digest, _: Option<&DecompressedGzip>) {}
}

/// A bundle under construction.
struct Made {
    lock: Lock,
    blobs: InMemory,
}

impl Made {
    fn new() -> Self {
        let (lock, blobs) = example(&[]);
        Self { lock, blobs }
    }

    fn add(&mut self, media_type: &str, content: &[u8]) -> Descriptor {
        Descriptor {
            media_type: media_type.to_owned(),
            digest: self.blobs.add(content),
            size: content.len() as u64,
        }
    }

    /// Adds an image of layers with media types, from the bottom to the top.
    fn image(mut self, name: &str, layers: &[(&str, Vec<u8>)]) -> Self {
        let manifest = self.add(
            "application/vnd.oci.image.manifest.v1+json",
            name.as_bytes(),
        );
        let config = self.add("application/vnd.oci.image.config.v1+json", b"{}");
        let mut blobs = vec![config];
        for (media_type, layer) in layers {
            blobs.push(self.add(media_type, layer));
        }
        self.lock.images.push(LockedImage {
            name: name.parse().unwrap(),
            manifest: manifest.clone(),
            platforms: vec![PlatformManifest {
                indexes: Vec::new(),
                arch: Some(Arch::Amd64),
                manifest,
                blobs,
            }],
            signature: None,
            unsigned: None,
            checksum: None,
        });
        self
    }

    fn file(mut self, component: &str, version: &str, format: FileFormat, content: &[u8]) -> Self {
        let (lock, _) = example(&[content.to_vec()]);
        self.blobs.add(content);
        self.lock.files.push(LockedFile {
            component: component.to_owned(),
            version: version.parse().unwrap(),
            format,
            ..lock.files[0].clone()
        });
        self
    }

    /// Packs every blob unchanged.
    fn pack(&self, path: &Path) {
        let storage = Placement::plain(&self.lock);
        self.pack_as(path, &storage);
    }

    /// Packs decompressed layers in a group.
    fn pack_opened(&self, path: &Path) {
        let stop = || false;
        let silent = Events::silent();
        let opened: DecompressedGzips =
            analyze_gzip(&self.lock, &self.blobs, &Forgetful, 2, &silent, &stop).unwrap();
        self.pack_as(path, &arrange(&self.lock, &opened));
    }

    fn pack_as(&self, path: &Path, storage: &Placement) {
        let silent = Events::silent();
        write(path, &self.lock, storage, &self.blobs, OPTIONS, &silent).unwrap();
    }
}

/// Returns a tar of files. A name that ends with a slash is a directory.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        if path.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        }
        tar.append_data(&mut header, path, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::new(6);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), level);
    packed.write_all(content).unwrap();
    packed.finish().unwrap()
}

/// Returns standard output and standard error of a command that must succeed.
fn kubexm(arguments: &[&str]) -> (String, String) {
    let (code, out, err) = kubexm_as_it_ends(arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    (out, err)
}

fn kubexm_as_it_ends(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kubexm"))
        .args(arguments)
        .env_remove("SOURCE_DATE_EPOCH")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let err = text(output.stderr);
    assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    (output.status.code(), text(output.stdout), err)
}

/// Returns the CycloneDX document of a bundle.
fn sbom(bundle: &Path) -> Value {
    let (out, _) = kubexm(&["bundle", "sbom", &bundle.display().to_string()]);
    serde_json::from_str(&out).unwrap()
}

/// Returns the package URLs of a document that begin with a type.
fn purls(document: &Value, kind: &str) -> BTreeSet<String> {
    let components = document["components"].as_array().unwrap().iter();
    let purls = components.filter_map(|one| one["purl"].as_str());
    let start = format!("pkg:{kind}/");
    purls
        .filter(|purl| purl.starts_with(&start))
        .map(str::to_owned)
        .collect()
}

/// Returns a component by its name.
fn component<'a>(document: &'a Value, name: &str) -> &'a Value {
    let mut components = document["components"].as_array().unwrap().iter();
    components.find(|one| one["name"] == name).unwrap()
}

/// Returns the components that a component contains or was built from.
fn below(document: &Value, reference: &Value) -> BTreeSet<String> {
    let mut all = document["dependencies"].as_array().unwrap().iter();
    let own = all.find(|one| one["ref"] == *reference).unwrap();
    let below = own["dependsOn"].as_array().unwrap().iter();
    below.map(|id| id.as_str().unwrap().to_owned()).collect()
}
