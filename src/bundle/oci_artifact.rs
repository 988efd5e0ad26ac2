//! A complete bundle as an OCI artifact in a registry (`FORMAT.md`, section 14).
//!
//! A tag names the *transport manifest*. Its layers are all blobs of the bundle: the documents of the
//! header, files and packages with their titles, and all blobs of images, manifests included. The transport
//! manifest alone is enough to pull the bundle. A registry's garbage collector keeps all blobs as long as it
//! keeps this manifest. This includes collectors that do not follow indexes (distribution 2 with
//! `--delete-untagged`). Image manifests are layers with an own media type, because registries parse
//! manifests. They refuse an index with platforms that they do not have, and a bundle may have such an
//! index.
//!
//! Manifests that a registry accepts are also pushed as manifests, so that images can be pulled by digest.
//! An index of them has its own tag.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::{Value, json};

use crate::format::header;
use crate::format::header::{BundleHeader, HeaderError};
use crate::format::oci_layout;
use crate::format::oci_layout::{
    EMPTY_CONFIG, EMPTY_TYPE, INDEX_TYPE, LOCK_TYPE, MANIFEST_TYPE, REF_NAME, SIGNATURE, STORAGE,
    TITLE,
};
use crate::format::placement::Placement;
use crate::format::recompression::RECOMPRESSION_TYPE;
use crate::lock::{Descriptor, LockedImage};
use crate::{BlobInfo, Blobs, Bundle, BundleError};
use kubexm_types::{Digest, PublicKey};

/// `artifactType` of the transport manifest.
pub const TRANSPORT_TYPE: &str = "application/vnd.kubexm.transport.v1";
/// Annotation: the digest of the lock, which identifies the content of a bundle.
const LOCK_DIGEST: &str = "io.kubexm.lock";
/// Annotation: the name of the header's document that a layer contains.
const DOCUMENT: &str = "io.kubexm.document";
/// Media type of a blob that only the lock describes.
const BLOB_TYPE: &str = "application/vnd.kubexm.blob.v1";
/// Media type of the bundle's `index.json`, so that no registry parses it.
const OPAQUE_INDEX: &str = "application/vnd.kubexm.index.v1+json";
/// Media type of the placement document.
const STORAGE_TYPE: &str = "application/vnd.kubexm.storage.v1+json";
/// Media type of the signature of `index.json`.
const SIGNATURE_TYPE: &str = "application/vnd.kubexm.signature.v1.minisign";
/// Media type of the bundle's artifact manifest, so that no registry parses it.
const OPAQUE_MANIFEST: &str = "application/vnd.kubexm.manifest.v1+json";
/// Maximum size of a manifest and of a document of the header, in bytes.
pub const LARGEST_DOCUMENT: u64 = 64 * 1024 * 1024;

/// A document of a bundle's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The title.
    pub name: String,
    /// The media type in the registry.
    pub media_type: String,
    pub bytes: Vec<u8>,
}

/// The blobs that a registry stores in addition to those of the lock.
#[derive(Debug, Clone)]
pub struct BundleArtifact {
    /// The documents of the header, in order.
    pub documents: Vec<Document>,
    /// The transport manifest.
    pub manifest: Vec<u8>,
}

/// A manifest of an image to push.
#[derive(Debug, Clone)]
pub struct ImageManifest {
    /// The name of the image.
    pub name: String,
    pub descriptor: Descriptor,
}

/// Returns the documents of the header that are needed to write the same bundle again.
fn documents(texts: &oci_layout::Documents, storage: &Placement) -> Result<Vec<Document>, String> {
    let document = |name: &str, media_type: &str, bytes: &[u8]| Document {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        bytes: bytes.to_vec(),
    };
    let storage = serde_json::to_vec(storage).map_err(|error| error.to_string())?;
    let mut documents = vec![
        document("index.json", OPAQUE_INDEX, &texts.index),
        document("manifest.json", OPAQUE_MANIFEST, &texts.manifest),
        document("kubexm.lock.yaml", LOCK_TYPE, &texts.lock),
        document(STORAGE, STORAGE_TYPE, &storage),
    ];
    if texts.config != EMPTY_CONFIG {
        documents.push(document(
            "kubexm.recompression.json",
            RECOMPRESSION_TYPE,
            &texts.config,
        ));
    }
    let signature = texts.signature.as_deref();
    documents.extend(signature.map(|text| document(SIGNATURE, SIGNATURE_TYPE, text)));
    Ok(documents)
}

/// Creates the transport manifest of a bundle. The same bundle gives the same bytes.
///
/// # Errors
/// The placement document cannot be serialized.
pub fn describe(bundle: &Bundle) -> Result<BundleArtifact, BundleError> {
    let damaged = |reason: String| BundleError::damaged(bundle.path(), reason);
    let lock = bundle.lock();
    let documents = documents(bundle.documents(), bundle.storage()).map_err(damaged)?;
    let is = |document: &&Document, media_type| document.media_type == media_type;
    let find = |media_type| documents.iter().find(|d| is(d, media_type));
    let mut layers: Vec<Value> = documents.iter().map(layer_of).collect();
    let mut left: BTreeMap<&Digest, &BlobInfo> = lock.blobs().iter().collect();
    // Other tools find files and packages by the titles of the artifact manifest.
    let artifact = find(OPAQUE_MANIFEST).map(|document| &document.bytes[..]);
    let artifact: Value = serde_json::from_slice(artifact.unwrap_or_default()).unwrap_or_default();
    for layer in artifact["layers"].as_array().into_iter().flatten() {
        let digest = layer["digest"].as_str().and_then(|text| text.parse().ok());
        if digest.is_some_and(|digest: Digest| left.remove(&digest).is_some()) {
            layers.push(layer.clone());
        }
    }
    layers.extend(left.iter().map(
        |(digest, blob)| json!({"mediaType": BLOB_TYPE, "digest": digest, "size": blob.size}),
    ));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": TRANSPORT_TYPE,
        "config": {
            "mediaType": EMPTY_TYPE,
            "digest": Digest::of(EMPTY_CONFIG),
            "size": EMPTY_CONFIG.len(),
        },
        "layers": layers,
        "annotations": {REF_NAME: lock.name, LOCK_DIGEST: bundle.lock_digest()},
    });
    Ok(BundleArtifact {
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

/// Returns the manifests of an image that a registry can store as manifests, children first. An index is
/// included if the bundle contains everything that it names.
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
    let platforms = image.platforms.iter();
    let mut manifests: Vec<ImageManifest> = platforms.map(|p| named(&p.manifest)).collect();
    for index in image.indexes().into_iter().chain([&image.manifest]) {
        let is_there = |digest| manifests.iter().any(|one| one.descriptor.digest == digest);
        if is_there(index.digest) {
            continue;
        }
        let children = children(&read_small(blobs, index)?);
        if children.is_some_and(|children| children.into_iter().all(is_there)) {
            manifests.push(named(index));
        }
    }
    Ok(manifests)
}

/// Returns the digests that an index names, or `None` if the document is not an index.
fn children(index: &[u8]) -> Option<Vec<Digest>> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let entries = index["manifests"].as_array()?.iter();
    entries
        .map(|entry| entry["digest"].as_str()?.parse().ok())
        .collect()
}

/// Returns the bytes of a manifest.
///
/// # Errors
/// The blob cannot be read, or it is larger than a manifest can be.
pub fn read_small(blobs: &dyn Blobs, blob: &Descriptor) -> Result<Vec<u8>, BundleError> {
    let failed = |source| BundleError::Io {
        path: blobs.place(&blob.digest),
        source,
    };
    if blob.size > LARGEST_DOCUMENT {
        return Err(failed(std::io::Error::other(
            "the manifest is larger than 64 MiB",
        )));
    }
    let mut bytes = Vec::new();
    let mut reader = blobs.open(&blob.digest)?.take(blob.size + 1);
    reader.read_to_end(&mut bytes).map_err(failed)?;
    // The reader compares the digest only at the end of the blob.
    if bytes.len() as u64 > blob.size {
        return Err(failed(std::io::Error::other(format!(
            "the blob is larger than the {} bytes of its descriptor",
            blob.size
        ))));
    }
    Ok(bytes)
}

/// Creates the index of the manifests that a registry accepted.
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

/// Returns the documents that a transport manifest names, or `None` if it is not a transport manifest. The
/// text is untrusted input.
pub fn read(manifest: &[u8]) -> Option<Vec<(String, Descriptor)>> {
    let value: Value = serde_json::from_slice(manifest).ok()?;
    let layers = value["layers"].as_array()?;
    (value["artifactType"] == TRANSPORT_TYPE).then(|| layers.iter().filter_map(document).collect())
}

/// Returns the name and the descriptor of a layer that is a document.
fn document(layer: &Value) -> Option<(String, Descriptor)> {
    let name = layer["annotations"][DOCUMENT].as_str()?;
    let descriptor = Descriptor {
        media_type: layer["mediaType"].as_str()?.to_owned(),
        digest: layer["digest"].as_str()?.parse().ok()?,
        size: layer["size"].as_u64()?,
    };
    Some((name.to_owned(), descriptor))
}

/// Parses and verifies documents from a registry like those of a file.
///
/// # Errors
/// As [`header::read`].
pub fn accept(got: &[Document], trust: &[PublicKey]) -> Result<BundleHeader, HeaderError> {
    let mut entries: BTreeMap<String, &[u8]> = BTreeMap::new();
    entries.insert("oci-layout".to_owned(), oci_layout::LAYOUT.as_bytes());
    for document in got {
        let bytes = &document.bytes[..];
        let name = match document.media_type.as_str() {
            OPAQUE_INDEX => "index.json".to_owned(),
            SIGNATURE_TYPE => SIGNATURE.to_owned(),
            STORAGE_TYPE => STORAGE.to_owned(),
            _ => oci_layout::blob_path(&Digest::of(bytes)),
        };
        entries.insert(name, bytes);
    }
    header::from_entries(&entries, trust)
}
