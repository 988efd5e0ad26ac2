//! A whole bundle as an OCI artifact in a registry.
//!
//! A tag names the *transport manifest*, which has every blob of the bundle as a layer: the documents
//! of the head, the files and packages under their titles, and everything of the images, manifests
//! included. It alone brings the bundle back, and a registry's garbage collector keeps everything as
//! long as it keeps this one manifest: also collectors that do not look through indexes (distribution
//! 2 with `--delete-untagged`). Manifests of images stand there as opaque blobs with a media type of
//! our own: registries look into manifests, and refuse an index with platforms that they do not have,
//! which an index in a bundle may well name.
//!
//! Manifests that a registry does take are put there as manifests, too, so that images can be pulled
//! by their digests, and an index over them has a tag of its own.

use std::io::Read;

use serde_json::{Value, json};

use super::layout::{
    self, EMPTY_CONFIG, INDEX_TYPE, LOCK_TYPE, MANIFEST_TYPE, REF_NAME, STORAGE_TYPE, TITLE,
};
use super::lock::{Descriptor, Lock, LockedImage};
use super::storage::Storage;
use super::{Blobs, Bundle, BundleError};
use crate::spec::Digest;

/// `artifactType` of the transport manifest.
pub const TRANSPORT_TYPE: &str = "application/vnd.kubexm.transport.v1";
/// Annotation: the lock's digest, which names a bundle's content.
const LOCK_DIGEST: &str = "io.kubexm.lock";
/// Annotation: which document of the head a layer is.
const DOCUMENT: &str = "io.kubexm.document";
/// Media type of a blob that only the lock explains.
const BLOB_TYPE: &str = "application/vnd.kubexm.blob.v1";
/// Media type of the bundle's `index.json` where no registry shall look into it.
const OPAQUE_INDEX: &str = "application/vnd.kubexm.index.v1+json";
/// The same of its artifact manifest.
const OPAQUE_MANIFEST: &str = "application/vnd.kubexm.manifest.v1+json";
/// Manifests, and documents of a head, are never larger.
pub const LARGEST_DOCUMENT: u64 = 64 * 1024 * 1024;

/// A document of a bundle's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its title.
    pub name: String,
    /// Its media type where it lies in a registry.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What a registry gets besides the blobs that the lock names.
#[derive(Debug, Clone)]
pub struct Transport {
    /// The documents of the head, in their order.
    pub documents: Vec<Document>,
    /// The transport manifest.
    pub manifest: Vec<u8>,
}

/// A manifest on its way to a registry.
#[derive(Debug, Clone)]
pub struct ImageManifest {
    /// The image.
    pub name: String,
    /// The manifest.
    pub descriptor: Descriptor,
}

impl Bundle {
    /// How its blobs lie in it.
    pub fn storage(&self) -> Storage {
        Storage {
            storage_version: Storage::VERSION,
            groups: self.groups().iter().map(|g| g.layout.group()).collect(),
        }
    }
}

/// The documents of a head: everything that must come back for the same bundle to be written.
///
/// # Errors
/// They cannot be written as text.
pub fn documents(lock: &Lock, storage: &Storage) -> Result<Vec<Document>, String> {
    let head = layout::head(lock, storage)?;
    let document = |name: &str, media_type: &str, bytes| Document {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        bytes,
    };
    Ok(vec![
        document("index.json", OPAQUE_INDEX, head.index),
        document("manifest.json", OPAQUE_MANIFEST, head.manifest),
        document("kubexm.lock.yaml", LOCK_TYPE, head.lock),
        document("kubexm.storage.json", STORAGE_TYPE, head.storage),
    ])
}

/// Makes the transport manifest of a bundle. The same bundle gives the same bytes.
///
/// # Errors
/// The bundle was written by another kubexm, which words its documents otherwise.
pub fn of(bundle: &Bundle) -> Result<Transport, BundleError> {
    let damaged = |reason: String| BundleError::Damaged {
        path: bundle.path().display().to_string(),
        reason,
    };
    let lock = bundle.lock();
    let documents = documents(lock, &bundle.storage()).map_err(damaged)?;
    let is = |document: &&Document, media_type| document.media_type == media_type;
    let find = |media_type| documents.iter().find(|d| is(d, media_type));
    let lock_text = find(LOCK_TYPE).map(|document| Digest::of(&document.bytes));
    if lock_text != Some(bundle.lock_digest()) {
        let words = "was written by another version of kubexm; use that one, or build it again";
        return Err(damaged(words.to_owned()));
    }
    let mut layers: Vec<Value> = documents.iter().map(layer_of).collect();
    let mut left = lock.blobs();
    // Files and packages as the bundle's own manifest has them: tools take them by their titles.
    let artifact = find(OPAQUE_MANIFEST).map(|document| &document.bytes[..]);
    let artifact: Value = serde_json::from_slice(artifact.unwrap_or_default()).unwrap_or_default();
    for layer in artifact["layers"].as_array().into_iter().flatten() {
        let digest = layer["digest"].as_str().and_then(|text| text.parse().ok());
        if digest.is_some_and(|digest| left.remove(&digest).is_some()) {
            layers.push(layer.clone());
        }
    }
    layers.extend(left.iter().map(
        |(digest, (size, _))| json!({"mediaType": BLOB_TYPE, "digest": digest, "size": size}),
    ));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": TRANSPORT_TYPE,
        "config": {
            "mediaType": "application/vnd.oci.empty.v1+json",
            "digest": Digest::of(EMPTY_CONFIG),
            "size": EMPTY_CONFIG.len(),
        },
        "layers": layers,
        "annotations": {REF_NAME: lock.name, LOCK_DIGEST: bundle.lock_digest()},
    });
    Ok(Transport {
        documents,
        manifest: manifest.to_string().into_bytes(),
    })
}

fn layer_of(document: &Document) -> Value {
    let Document {
        name,
        media_type,
        bytes,
    } = document;
    json!({
        "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len(),
        "annotations": {TITLE: name, DOCUMENT: name},
    })
}

/// Every manifest of an image that a registry can hold as a manifest, children first: those of its
/// platforms, and the index above them where it names no other.
///
/// # Errors
/// The index cannot be read from the bundle.
pub fn manifests_of(
    image: &LockedImage,
    blobs: &dyn Blobs,
) -> Result<Vec<ImageManifest>, BundleError> {
    let named = |descriptor: &Descriptor| ImageManifest {
        name: image.name.to_string(),
        descriptor: descriptor.clone(),
    };
    let mut manifests: Vec<ImageManifest> =
        image.platforms.iter().map(|p| named(&p.manifest)).collect();
    let top = image.manifest.digest;
    let single = image.platforms.iter().any(|p| p.manifest.digest == top);
    if !single && children(&read_small(blobs, &image.manifest)?).is_some_and(|c| carried(image, &c))
    {
        manifests.push(named(&image.manifest));
    }
    Ok(manifests)
}

/// The digests that an index names; `None` where it is none.
fn children(index: &[u8]) -> Option<Vec<Digest>> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let entries = index["manifests"].as_array()?.iter();
    entries
        .map(|entry| entry["digest"].as_str()?.parse().ok())
        .collect()
}

fn carried(image: &LockedImage, children: &[Digest]) -> bool {
    let there = |digest| image.platforms.iter().any(|p| p.manifest.digest == digest);
    children.iter().all(|digest| there(*digest))
}

/// A manifest's bytes.
///
/// # Errors
/// It cannot be read, or is none.
pub fn read_small(blobs: &dyn Blobs, blob: &Descriptor) -> Result<Vec<u8>, BundleError> {
    let failed = |source| BundleError::Io {
        path: blobs.place(&blob.digest),
        source,
    };
    if blob.size > LARGEST_DOCUMENT {
        return Err(failed(std::io::Error::other(
            "a manifest of impossible size",
        )));
    }
    let mut bytes = Vec::new();
    let mut reader = blobs.open(&blob.digest)?.take(blob.size + 1);
    reader.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Makes the index over the manifests that a registry has taken.
pub fn images_index(images: &[ImageManifest]) -> Vec<u8> {
    let entry = |image: &ImageManifest| {
        let top = &image.descriptor;
        json!({
            "mediaType": top.media_type, "digest": top.digest, "size": top.size,
            "annotations": {REF_NAME: image.name},
        })
    };
    let manifests: Vec<Value> = images.iter().map(entry).collect();
    json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests})
        .to_string()
        .into_bytes()
}

/// The documents that a transport manifest names; `None` where it is something else. The text is a
/// stranger's.
pub fn read(manifest: &[u8]) -> Option<Vec<(String, Descriptor)>> {
    let value: Value = serde_json::from_slice(manifest).ok()?;
    let layers = value["layers"].as_array()?;
    (value["artifactType"] == TRANSPORT_TYPE).then(|| layers.iter().filter_map(document).collect())
}

/// A layer that is a document.
fn document(layer: &Value) -> Option<(String, Descriptor)> {
    let name = layer["annotations"][DOCUMENT].as_str()?;
    let descriptor = Descriptor {
        media_type: layer["mediaType"].as_str()?.to_owned(),
        digest: layer["digest"].as_str()?.parse().ok()?,
        size: layer["size"].as_u64()?,
    };
    Some((name.to_owned(), descriptor))
}

/// The lock and the places out of documents that came from a registry, held against all others.
///
/// # Errors
/// What is wrong with them, as the rest of a sentence about the bundle.
pub fn accept(got: &[Document]) -> Result<(Lock, Storage), String> {
    let find = |media_type: &str, what: &str| {
        let mut documents = got.iter();
        let document = documents.find(|document| document.media_type == media_type);
        document.ok_or_else(|| format!("names no {what}"))
    };
    let text = &find(LOCK_TYPE, "lock")?.bytes;
    let text = std::str::from_utf8(text).map_err(|_| "its lock is no text".to_owned())?;
    let lock = Lock::from_yaml(text)?;
    let storage = Storage::read(&find(STORAGE_TYPE, "list of places")?.bytes, &lock)?;
    for wanted in documents(&lock, &storage)? {
        if find(&wanted.media_type, &wanted.name)?.bytes != wanted.bytes {
            return Err(format!(
                "its {} does not fit its lock, or another version of kubexm wrote it: use that one",
                wanted.name
            ));
        }
    }
    Ok((lock, storage))
}
