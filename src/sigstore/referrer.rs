//! Signatures that say of themselves of which image they are: manifests with a subject, which registries
//! list (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-referrers>).

use serde::Deserialize;
use serde_json::{Value, json};

use super::document::{LARGEST_MANIFEST, LARGEST_PART, Part};
use super::shown;
use kubexm_types::Digest;

/// `artifactType` of a referrer that carries a bundle, in the version that is written today.
pub const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// How the type begins in all versions.
pub(super) const BUNDLES: &str = "application/vnd.dev.sigstore.bundle";
/// Media types of a list of referrers and of a referrer.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Annotation: what a bundle's statement says. No more than a hint.
const PREDICATE: &str = "dev.sigstore.bundle.predicateType";
/// How the hint begins where cosign signed.
const SIGNS: &str = "https://sigstore.dev/cosign/sign/";
/// Of an image's referrers no more are looked at.
const MOST: usize = 64;

/// A manifest that carries a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrer {
    /// Of which image it says to be.
    pub subject: Digest,
    /// Its configuration and the bundle.
    pub parts: Vec<Part>,
    /// The bundle.
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

/// The manifests in a list of referrers that may carry a bundle, those first that say to be signatures.
///
/// # Errors
/// It is no such list, as the rest of a sentence about it.
pub fn listed(bytes: &[u8]) -> Result<Vec<Part>, String> {
    if bytes.len() > LARGEST_MANIFEST {
        return Err("is larger than any list of referrers".to_owned());
    }
    let index: Index = serde_json::from_slice(bytes)
        .map_err(|error| format!("is no list of referrers: {}", shown(&error.to_string())))?;
    if index.media_type.is_some_and(|kind| kind != INDEX) {
        return Err("is no list of referrers".to_owned());
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
        // Lists that older clients wrote under the tag may not say what their entries are.
        let kind = self
            .artifact_type
            .as_deref()
            .filter(|kind| !kind.is_empty());
        self.media_type == MANIFEST
            && self.size <= LARGEST_MANIFEST as u64
            && kind.is_none_or(|kind| kind.starts_with(BUNDLES))
    }

    fn is_called_a_signature(&self) -> bool {
        let hint = self.annotations.as_ref().map(|all| &all[PREDICATE]);
        let hint = hint.and_then(Value::as_str);
        hint.is_some_and(|hint| hint.starts_with(SIGNS))
    }
}

/// Reads a referrer; `None` where it carries something else than a bundle.
///
/// # Errors
/// It is none, as the rest of a sentence about it.
pub fn read(bytes: &[u8]) -> Result<Option<Referrer>, String> {
    if bytes.len() > LARGEST_MANIFEST {
        return Err("is larger than any signature manifest".to_owned());
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| format!("is no signature manifest: {}", shown(&error.to_string())))?;
    let is_bundle = |kind: &str| kind.starts_with(BUNDLES);
    let is_manifest = manifest.media_type.is_none_or(|kind| kind == MANIFEST);
    let Ok([bundle]) = <[Part; 1]>::try_from(manifest.layers) else {
        return Ok(None);
    };
    // The layer's type decides, as it does for cosign; the manifest's own may be missing.
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
            return Err(format!("gives {} two sizes", bundle.digest));
        }
        true => {}
        false => parts.push(bundle.clone()),
    }
    if let Some(part) = parts.iter().find(|part| part.size > LARGEST_PART) {
        return Err(format!("names {} of impossible size", part.digest));
    }
    Ok(Some(Referrer {
        subject: subject.digest,
        parts,
        bundle,
    }))
}

/// The list of just this referrer, for registries that make none of their own: it stands there under a
/// tag (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#referrers-tag-schema>).
/// The same manifest gives the same bytes.
pub fn list_of(manifest: &[u8]) -> Vec<u8> {
    let list = json!({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry(manifest)],
    });
    list.to_string().into_bytes()
}

/// A list with one referrer more; `None` where it names it already.
///
/// # Errors
/// What is there is no list, as the rest of a sentence about it.
pub fn with_one_more(list: &[u8], manifest: &[u8]) -> Result<Option<Vec<u8>>, String> {
    listed(list)?;
    let mut list: Value = serde_json::from_slice(list).map_err(|_| "is no list of referrers")?;
    let digest = Digest::of(manifest).to_string();
    let entries = list["manifests"].as_array_mut();
    let entries = entries.ok_or("is no list of referrers")?;
    if entries
        .iter()
        .any(|entry| entry["digest"] == digest.as_str())
    {
        return Ok(None);
    }
    entries.push(entry(manifest));
    let text = list.to_string().into_bytes();
    match text.len() <= LARGEST_MANIFEST {
        true => Ok(Some(text)),
        false => Err("is full".to_owned()),
    }
}

/// What a list says of a referrer: what that says of itself.
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
