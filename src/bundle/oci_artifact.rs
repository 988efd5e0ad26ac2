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

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::{Value, json};

use crate::format::header;
use crate::format::header::{BundleHeader, HeaderError};
use crate::format::oci_layout;
use crate::format::oci_layout::{
    EMPTY_CONFIG, INDEX_TYPE, LOCK_TYPE, MANIFEST_TYPE, REF_NAME, SIGNATURE, STORAGE, TITLE,
};
use crate::format::placement::Placement;
use crate::lock::{Descriptor, LockedImage};
use crate::{BlobInfo, Blobs, Bundle, BundleError};
use kubexm_types::{Digest, PublicKey};

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
/// Media type of the document that says how blobs lie in the file.
const STORAGE_TYPE: &str = "application/vnd.kubexm.storage.v1+json";
/// Media type of the signature of `index.json`.
const SIGNATURE_TYPE: &str = "application/vnd.kubexm.signature.v1.minisign";
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
pub struct BundleArtifact {
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

/// The documents of a head: everything that must come back for the same bundle to be written.
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
    let signature = texts.signature.as_deref();
    documents.extend(signature.map(|text| document(SIGNATURE, SIGNATURE_TYPE, text)));
    Ok(documents)
}

/// Makes the transport manifest of a bundle. The same bundle gives the same bytes.
///
/// # Errors
/// Its documents cannot be written as text.
pub fn of(bundle: &Bundle) -> Result<BundleArtifact, BundleError> {
    let damaged = |reason: String| BundleError::Damaged {
        path: bundle.path().display().to_string(),
        reason,
    };
    let lock = bundle.lock();
    let documents = documents(bundle.texts(), bundle.storage()).map_err(damaged)?;
    let is = |document: &&Document, media_type| document.media_type == media_type;
    let find = |media_type| documents.iter().find(|d| is(d, media_type));
    let mut layers: Vec<Value> = documents.iter().map(layer_of).collect();
    let mut left: BTreeMap<&Digest, &BlobInfo> = lock.blobs().iter().collect();
    // Files and packages as the bundle's own manifest has them: tools take them by their titles.
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
            "mediaType": "application/vnd.oci.empty.v1+json",
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

/// What documents say that came from a registry, held against each other as those of a file are.
///
/// # Errors
/// What is wrong with them.
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
