//! The OCI image layout inside a bundle
//! (<https://github.com/opencontainers/image-spec/blob/main/image-layout.md>).

use serde_json::{Value, json};

use super::lock::{Descriptor, FileFormat, Lock};
use super::storage::Storage;
use crate::spec::Digest;

/// `artifactType` of the manifest that lists everything but images.
pub const ARTIFACT_TYPE: &str = "application/vnd.kubexm.bundle.v1";
/// Media type of the lock.
pub const LOCK_TYPE: &str = "application/vnd.kubexm.lock.v1+yaml";
/// Media type of the document that says how blobs lie in the file.
pub const STORAGE_TYPE: &str = "application/vnd.kubexm.storage.v1+json";
/// Content of `oci-layout`.
pub const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
/// The config of an artifact manifest without configuration.
pub const EMPTY_CONFIG: &[u8] = b"{}";

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const TITLE: &str = "org.opencontainers.image.title";
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// The texts that stand first in a bundle.
pub struct Head {
    /// `index.json`.
    pub index: Vec<u8>,
    /// The artifact manifest.
    pub manifest: Vec<u8>,
    /// The lock.
    pub lock: Vec<u8>,
    /// How blobs lie in the file.
    pub storage: Vec<u8>,
}

/// Path of a blob in the layout.
pub fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Makes the head of a bundle. The same lock and storage give the same bytes.
pub fn head(lock: &Lock, storage: &Storage) -> Result<Head, String> {
    let lock_text = serde_saphyr::to_string(lock)
        .map_err(|error| error.to_string())?
        .into_bytes();
    let storage = serde_json::to_vec(storage).map_err(|error| error.to_string())?;
    let manifest = artifact_manifest(lock, &lock_text, &storage)
        .to_string()
        .into_bytes();
    let index = index(lock, &manifest).to_string().into_bytes();
    Ok(Head {
        index,
        manifest,
        lock: lock_text,
        storage,
    })
}

fn descriptor(media_type: &str, digest: Digest, size: u64, title: &str) -> Value {
    json!({
        "mediaType": media_type, "digest": digest, "size": size, "annotations": {TITLE: title},
    })
}

fn artifact_manifest(lock: &Lock, lock_text: &[u8], storage: &[u8]) -> Value {
    let document = |media_type, text: &[u8], title| {
        descriptor(media_type, Digest::of(text), text.len() as u64, title)
    };
    let mut layers = vec![
        document(LOCK_TYPE, lock_text, "kubexm.lock.yaml"),
        document(STORAGE_TYPE, storage, "kubexm.storage.json"),
    ];
    for file in &lock.files {
        let media_type = match file.format {
            FileFormat::Binary => "application/vnd.kubexm.binary.v1",
            FileFormat::TarGz => "application/vnd.kubexm.archive.v1.tar+gzip",
        };
        let title = format!(
            "{}/{}/{}/{}",
            file.component, file.version, file.arch, file.file_name
        );
        layers.push(descriptor(media_type, file.digest, file.size, &title));
    }
    for set in &lock.packages {
        let place = format!("packages/{}/{}/{}", set.distribution, set.release, set.arch);
        let (index, kind) = (&set.index, &set.index.media_type);
        layers.push(descriptor(
            kind,
            index.digest,
            index.size,
            &format!("{place}/{}", set.format.index_path()),
        ));
        for package in &set.packages {
            let title = format!("{place}/{}", package.file_name);
            let kind = set.format.package_type();
            layers.push(descriptor(kind, package.digest, package.size, &title));
        }
    }
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": ARTIFACT_TYPE,
        "config": {
            "mediaType": "application/vnd.oci.empty.v1+json",
            "digest": Digest::of(EMPTY_CONFIG),
            "size": EMPTY_CONFIG.len(),
        },
        "layers": layers,
    })
}

fn index(lock: &Lock, manifest: &[u8]) -> Value {
    let mut manifests = vec![json!({
        "mediaType": MANIFEST_TYPE,
        "artifactType": ARTIFACT_TYPE,
        "digest": Digest::of(manifest),
        "size": manifest.len(),
        "annotations": {REF_NAME: lock.name},
    })];
    for image in &lock.images {
        let Descriptor {
            media_type,
            digest,
            size,
        } = &image.manifest;
        manifests.push(json!({
            "mediaType": media_type, "digest": digest, "size": size,
            "annotations": {REF_NAME: image.name},
        }));
    }
    json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests})
}

/// The digest and size of one descriptor, by a path of keys that a hostile file may lack.
fn descriptor_of(value: &Value) -> Option<(Digest, u64)> {
    Some((
        value["digest"].as_str()?.parse().ok()?,
        value["size"].as_u64()?,
    ))
}

/// Digest and size of the artifact manifest that an `index.json` names.
pub fn manifest_in_index(index: &[u8]) -> Option<(Digest, u64)> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let mut manifests = index["manifests"].as_array()?.iter();
    descriptor_of(manifests.find(|manifest| manifest["artifactType"] == ARTIFACT_TYPE)?)
}

/// Digest and size of the document of a media type that an artifact manifest names.
pub fn document_in_manifest(manifest: &[u8], media_type: &str) -> Option<(Digest, u64)> {
    let manifest: Value = serde_json::from_slice(manifest).ok()?;
    let mut layers = manifest["layers"].as_array()?.iter();
    descriptor_of(layers.find(|layer| layer["mediaType"] == media_type)?)
}

/// Digest and size of everything that an `index.json` names beside the artifact manifest.
pub fn images_in_index(index: &[u8]) -> Option<Vec<(Digest, u64)>> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let manifests = index["manifests"].as_array()?.iter();
    manifests
        .filter(|manifest| manifest["artifactType"] != ARTIFACT_TYPE)
        .map(descriptor_of)
        .collect()
}
