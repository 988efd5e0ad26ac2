//! Signatures as OCI referrers: manifests with a `subject`, which registries list
//! (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-referrers>).

use serde::Deserialize;
use serde_json::{Value, json};

use super::bundle::MEDIA_TYPE_PREFIX;
use super::document::Part;
use super::limits::{LARGEST_MANIFEST, LARGEST_PART};
use super::text::shown;
use kubexm_types::Digest;

/// `artifactType` of a referrer with a bundle, in the current version of the format.
pub const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// Media types of an index of referrers and of a referrer.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Annotation with the predicate type of a bundle's statement. It is only a hint.
const PREDICATE: &str = "dev.sigstore.bundle.predicateType";
/// The prefix of the hint for signatures by cosign.
const SIGNS: &str = "https://sigstore.dev/cosign/sign/";
/// Maximum number of an image's referrers that kubexm examines.
const MOST: usize = 64;

/// A manifest that contains a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrer {
    /// The image that the manifest refers to.
    pub subject: Digest,
    /// The configuration and the bundle.
    pub parts: Vec<Part>,
    pub bundle: Part,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    media_type: Option<String>,
    manifests: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    media_type: String,
    digest: Digest,
    size: u64,
    artifact_type: Option<String>,
    #[serde(default)]
    annotations: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Part,
    layers: Vec<Part>,
    subject: Option<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: Digest,
}

/// Returns the descriptors of an index of referrers that may be bundles; those marked as signatures come
/// first.
///
/// # Errors
/// The bytes are not an index of referrers. The text completes a sentence about them.
pub fn listed(bytes: &[u8]) -> Result<Vec<Part>, String> {
    if bytes.len() > LARGEST_MANIFEST {
        return Err("is larger than 4 MiB, the limit for a list of referrers".to_owned());
    }
    let index: Index = serde_json::from_slice(bytes)
        .map_err(|error| format!("is not a list of referrers: {}", shown(&error.to_string())))?;
    if index.media_type.is_some_and(|kind| kind != INDEX) {
        return Err("is not a list of referrers".to_owned());
    }
    let mut listed: Vec<Listed> = index
        .manifests
        .into_iter()
        .filter(Listed::may_be_a_bundle)
        .collect();
    listed.sort_by_key(|listed| !listed.is_called_a_signature());
    listed.truncate(MOST);
    let part = |listed: Listed| Part {
        media_type: listed.media_type,
        digest: listed.digest,
        size: listed.size,
    };
    Ok(listed.into_iter().map(part).collect())
}

impl Listed {
    fn may_be_a_bundle(&self) -> bool {
        // Indexes that older clients wrote under the tag may not have the types of their entries.
        let kind = self
            .artifact_type
            .as_deref()
            .filter(|kind| !kind.is_empty());
        self.media_type == MANIFEST
            && self.size <= LARGEST_MANIFEST as u64
            && kind.is_none_or(|kind| kind.starts_with(MEDIA_TYPE_PREFIX))
    }

    fn is_called_a_signature(&self) -> bool {
        let hint = self.annotations.as_ref().map(|all| &all[PREDICATE]);
        let hint = hint.and_then(Value::as_str);
        hint.is_some_and(|hint| hint.starts_with(SIGNS))
    }
}

/// Parses a referrer; returns `None` if it does not contain a bundle.
///
/// # Errors
/// The bytes are not a manifest. The text completes a sentence about them.
pub fn read(bytes: &[u8]) -> Result<Option<Referrer>, String> {
    if bytes.len() > LARGEST_MANIFEST {
        return Err("is larger than 4 MiB, the limit for a signature manifest".to_owned());
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| format!("is not a signature manifest: {}", shown(&error.to_string())))?;
    let is_bundle = |kind: &str| kind.starts_with(MEDIA_TYPE_PREFIX);
    let is_manifest = manifest.media_type.is_none_or(|kind| kind == MANIFEST);
    let Ok([bundle]) = <[Part; 1]>::try_from(manifest.layers) else {
        return Ok(None);
    };
    // As in cosign, the layer's type decides, because the manifest's own type may be missing.
    let kind = manifest.artifact_type.as_deref();
    let (true, true, Some(subject)) = (
        is_manifest && kind.is_none_or(is_bundle),
        is_bundle(&bundle.media_type),
        manifest.subject,
    ) else {
        return Ok(None);
    };
    let mut parts = vec![manifest.config];
    match parts[0].digest == bundle.digest {
        true if parts[0].size != bundle.size => {
            return Err(format!("lists {} with two sizes", bundle.digest));
        }
        true => {}
        false => parts.push(bundle.clone()),
    }
    if let Some(part) = parts.iter().find(|part| part.size > LARGEST_PART) {
        return Err(format!(
            "names {} with a size above the limit of 1 MiB",
            part.digest
        ));
    }
    Ok(Some(Referrer {
        subject: subject.digest,
        parts,
        bundle,
    }))
}

/// Returns an index with only this referrer, for registries without the referrers API. It is stored under
/// a tag (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#referrers-tag-schema>).
/// The same manifest always yields the same bytes.
pub fn list_of(manifest: &[u8]) -> Vec<u8> {
    let list = json!({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry(manifest)],
    });
    list.to_string().into_bytes()
}

/// Returns the index with this referrer added; `None` if it contains the referrer already.
///
/// # Errors
/// The bytes are not an index of referrers. The text completes a sentence about them.
pub fn with_one_more(list: &[u8], manifest: &[u8]) -> Result<Option<Vec<u8>>, String> {
    listed(list)?;
    let mut list: Value = serde_json::from_slice(list).map_err(|_| "is not a list of referrers")?;
    let digest = Digest::of(manifest).to_string();
    let entries = list["manifests"].as_array_mut();
    let entries = entries.ok_or("is not a list of referrers")?;
    if entries
        .iter()
        .any(|entry| entry["digest"] == digest.as_str())
    {
        return Ok(None);
    }
    entries.push(entry(manifest));
    let text = list.to_string().into_bytes();
    if text.len() <= LARGEST_MANIFEST {
        Ok(Some(text))
    } else {
        Err("is full".to_owned())
    }
}

/// Returns the descriptor of a referrer, with the type and the annotations of its manifest.
fn entry(manifest: &[u8]) -> Value {
    let said: Value = serde_json::from_slice(manifest).unwrap_or_default();
    let mut entry = json!({
        "mediaType": MANIFEST, "digest": Digest::of(manifest), "size": manifest.len(),
        "artifactType": said["artifactType"].as_str().unwrap_or(BUNDLE_TYPE),
    });
    if said["annotations"].is_object() {
        entry["annotations"] = said["annotations"].clone();
    }
    entry
}
