//! The OCI image layout inside a bundle
//! (<https://github.com/opencontainers/image-spec/blob/main/image-layout.md>).

use serde_json::{Value, json};

use crate::format::placement::DecompressedGzips;
use crate::format::recompression::{RECOMPRESSION_TYPE, Recompression};
use crate::lock::{Descriptor, FileFormat, Lock};
use crate::signature::Signer;
use kubexm_types::Digest;

/// `artifactType` of the manifest that lists everything except images.
pub const ARTIFACT_TYPE: &str = "application/vnd.kubexm.bundle.v1";
/// Media type of the lock.
pub const LOCK_TYPE: &str = "application/vnd.kubexm.lock.v1+yaml";
/// Name of the placement document. The signature does not cover it: the same content with the same
/// recompression document has the same signature, complete or incremental, however it is packed. A changed
/// placement document can make a bundle unreadable, and nothing else.
pub const STORAGE: &str = "kubexm.storage.json";
/// Name of the signature of `index.json`.
pub const SIGNATURE: &str = "index.json.minisig";
/// Content of `oci-layout`.
pub const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
/// Configuration of an artifact manifest that has none.
pub const EMPTY_CONFIG: &[u8] = b"{}";
/// Media type of [`EMPTY_CONFIG`].
pub const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";

/// Media type of a manifest.
pub const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an index.
pub const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// Annotation: the name that a layer has as a file.
pub const TITLE: &str = "org.opencontainers.image.title";
/// Annotation: the name of a manifest in an index.
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// The documents of the header that list the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    /// `index.json`.
    pub index: Vec<u8>,
    /// The artifact manifest.
    pub manifest: Vec<u8>,
    /// The lock.
    pub lock: Vec<u8>,
    /// The configuration of the artifact manifest: the recompression document, [`EMPTY_CONFIG`], or one of a later version.
    pub config: Vec<u8>,
    /// The signature of `index`.
    pub signature: Option<Vec<u8>>,
}

impl Documents {
    /// Signs the index. `name` is the bundle's name, which the trusted comment contains.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&mut self, signer: &Signer, name: &str) -> Result<(), String> {
        let signature = signer.sign(&self.index, name, Digest::of(&self.lock))?;
        self.signature = Some(signature.into_bytes());
        Ok(())
    }

    /// Returns names and contents in the order of the tar.
    pub fn entries<'a>(&'a self, storage: &'a [u8]) -> Vec<(String, &'a [u8])> {
        let blob = |content: &[u8]| blob_path(&Digest::of(content));
        let mut entries = vec![
            ("oci-layout".to_owned(), LAYOUT.as_bytes()),
            ("index.json".to_owned(), &self.index[..]),
        ];
        let signature = self.signature.as_deref();
        entries.extend(signature.map(|text| (SIGNATURE.to_owned(), text)));
        entries.extend([
            (blob(&self.manifest), &self.manifest[..]),
            (blob(&self.lock), &self.lock[..]),
            (blob(&self.config), &self.config[..]),
            (STORAGE.to_owned(), storage),
        ]);
        entries
    }
}

/// Returns the path of a blob in the layout.
pub fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Creates the documents of a bundle's header. The same arguments give the same bytes. `proven` are the
/// gzip blobs that were recompressed and compared.
pub fn head(lock: &Lock, proven: &DecompressedGzips) -> Result<Documents, String> {
    let config = match Recompression::of(proven) {
        None => EMPTY_CONFIG.to_vec(),
        Some(document) => serde_json::to_vec(&document).map_err(|error| error.to_string())?,
    };
    let lock_text = serde_saphyr::to_string(lock)
        .map_err(|error| error.to_string())?
        .into_bytes();
    let manifest = artifact_manifest(lock, &lock_text, &config)
        .to_string()
        .into_bytes();
    let index = index(lock, &manifest).to_string().into_bytes();
    Ok(Documents {
        index,
        manifest,
        lock: lock_text,
        config,
        signature: None,
    })
}

fn descriptor(media_type: &str, digest: Digest, size: u64, title: &str) -> Value {
    json!({
        "mediaType": media_type, "digest": digest, "size": size, "annotations": {TITLE: title},
    })
}

fn artifact_manifest(lock: &Lock, lock_text: &[u8], config: &[u8]) -> Value {
    let (digest, size) = (Digest::of(lock_text), lock_text.len() as u64);
    let mut layers = vec![descriptor(LOCK_TYPE, digest, size, "kubexm.lock.yaml")];
    for file in &lock.files {
        let media_type = match file.format {
            FileFormat::Binary => "application/vnd.kubexm.binary.v1",
            FileFormat::TarGz => "application/vnd.kubexm.archive.v1.tar+gzip",
            FileFormat::Manifest => "application/yaml",
        };
        let title = format!(
            "{}/{}/{}/{}",
            file.component, file.version, file.arch, file.file_name
        );
        layers.push(descriptor(media_type, file.digest, file.size, &title));
        for (suffix, blob) in file.signature_blobs() {
            let (kind, title) = (&blob.media_type, format!("{title}{suffix}"));
            layers.push(descriptor(kind, blob.digest, blob.size, &title));
        }
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
    for own in &lock.artifacts {
        let title = format!("{}s/{}", own.kind, own.file_name());
        layers.push(descriptor(own.media_type(), own.digest, own.size, &title));
    }
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": ARTIFACT_TYPE,
        "config": {
            "mediaType": if config == EMPTY_CONFIG { EMPTY_TYPE } else { RECOMPRESSION_TYPE },
            "digest": Digest::of(config),
            "size": config.len(),
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
        manifests.extend(image.named_signature().map(|(name, signature)| {
            let top = &signature.manifest;
            let mut entry =
                json!({"mediaType": top.media_type, "digest": top.digest, "size": top.size});
            if let Some(name) = name {
                entry["annotations"] = json!({REF_NAME: name});
            }
            entry
        }));
    }
    json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests})
}

/// Returns digest and size of a descriptor, or `None` if a field is missing or has a wrong type.
fn descriptor_of(value: &Value) -> Option<(Digest, u64)> {
    Some((
        value["digest"].as_str()?.parse().ok()?,
        value["size"].as_u64()?,
    ))
}

/// Returns digest and size of the artifact manifest in `index.json`.
pub fn manifest_in_index(index: &[u8]) -> Option<(Digest, u64)> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let mut manifests = index["manifests"].as_array()?.iter();
    descriptor_of(manifests.find(|manifest| manifest["artifactType"] == ARTIFACT_TYPE)?)
}

/// Returns digest and size of the layer with this media type in an artifact manifest.
pub fn document_in_manifest(manifest: &[u8], media_type: &str) -> Option<(Digest, u64)> {
    let manifest: Value = serde_json::from_slice(manifest).ok()?;
    let mut layers = manifest["layers"].as_array()?.iter();
    descriptor_of(layers.find(|layer| layer["mediaType"] == media_type)?)
}

/// The configuration that an artifact manifest names.
#[derive(Debug)]
pub struct NamedConfig {
    /// Its digest and its size in bytes.
    pub named: (Digest, u64),
    /// Whether it is a recompression document.
    pub is_recompression: bool,
}

/// Returns the configuration that an artifact manifest names.
pub fn config_in_manifest(manifest: &[u8]) -> Option<NamedConfig> {
    let manifest: Value = serde_json::from_slice(manifest).ok()?;
    let config = &manifest["config"];
    Some(NamedConfig {
        named: descriptor_of(config)?,
        is_recompression: config["mediaType"] == RECOMPRESSION_TYPE,
    })
}

/// Returns digest and size of everything in `index.json` except the artifact manifest.
pub fn images_in_index(index: &[u8]) -> Option<Vec<(Digest, u64)>> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let manifests = index["manifests"].as_array()?.iter();
    manifests
        .filter(|manifest| manifest["artifactType"] != ARTIFACT_TYPE)
        .map(descriptor_of)
        .collect()
}
