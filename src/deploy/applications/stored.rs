//! Revisions of releases as Helm stores them: compressed JSON in a Secret
//! (<https://helm.sh/docs/topics/advanced/#storage-backends>).

use std::fmt::Display;
use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use kubexm_engine::plan::StepError;
use kubexm_types::Message;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::installed::{InstalledRelease, Revision};
use super::object::ManifestObject;
use super::resources::Resources;
use super::secret_values::SecretValues;
use crate::objects::Server;

/// Prints the stored revision.
const RELEASE: &str = r#"go-template={"release":"{{.data.release}}"}"#;
/// The largest revision, in bytes. A Secret has at most 1 MiB.
const LARGEST: u64 = 64 * 1024 * 1024;

#[derive(Deserialize)]
struct Secret {
    release: String,
}

/// A revision of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StoredRelease {
    /// The objects, as YAML. They may have secrets.
    #[serde(default)]
    pub manifest: String,
    /// The values that the chart did not have. They may have secrets.
    #[serde(default, rename = "config")]
    pub values: Value,
    #[serde(default)]
    chart: Option<StoredChart>,
    /// Which of the values are secret.
    #[serde(skip)]
    pub(super) secrets: SecretValues,
    #[serde(default, deserialize_with = "hooks")]
    pub(super) hooks: Vec<StoredHook>,
    /// When Helm created it. Versions of Helm write no time in several ways.
    #[serde(default)]
    info: Value,
}

/// The chart of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct StoredChart {
    #[serde(default)]
    metadata: StoredMetadata,
    /// The files besides templates and values.
    #[serde(default)]
    files: Option<Vec<StoredFile>>,
}

/// What `Chart.yaml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct StoredMetadata {
    name: String,
    version: String,
}

/// A file of a chart. It may have secrets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct StoredFile {
    name: String,
    /// The content in base64.
    #[serde(default)]
    data: Option<String>,
}

impl StoredRelease {
    /// Returns the name of the chart and its version.
    pub(super) fn chart_and_version(&self) -> Option<(&str, &str)> {
        let metadata = &self.chart.as_ref()?.metadata;
        Some((&metadata.name, &metadata.version))
    }

    /// Returns when Helm began to work on it.
    pub(super) fn began(&self) -> Option<OffsetDateTime> {
        time(&self.info, "last_deployed")
    }

    /// Returns whether the chart has a file with this text.
    pub(super) fn has_file(&self, name: &str, text: &str) -> bool {
        let files = self.chart.iter().filter_map(|chart| chart.files.as_ref());
        let mut files = files.flatten();
        let file = files.find(|file| file.name == name);
        let data = file.and_then(|file| file.data.as_ref());
        data.is_some_and(|data| *data == BASE64_STANDARD.encode(text))
    }
}

/// A hook of a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct StoredHook {
    /// Its object, as YAML.
    pub(super) manifest: String,
    /// As in `pre-install`.
    pub(super) events: Vec<String>,
    /// Its phase, as in `Failed`, and when it began and ended. Versions of Helm write no time in several ways.
    last_run: Value,
}

impl StoredHook {
    /// Returns whether it has succeeded, or has not run.
    pub(super) fn has_succeeded(&self) -> bool {
        let phase = self.last_run["phase"].as_str().unwrap_or_default();
        ["", "Succeeded"].contains(&phase)
    }

    /// Returns how long it has run; `None` if it has not ended.
    pub(super) fn seconds(&self) -> Option<u64> {
        let time = |name: &str| time(&self.last_run, name);
        let time = time("completed_at")? - time("started_at")?;
        u64::try_from(time.whole_seconds()).ok()
    }
}

fn time(fields: &Value, name: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(fields[name].as_str()?, &Rfc3339).ok()
}

/// A chart without hooks can have a null.
fn hooks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<StoredHook>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Returns whether a revision has these values. Helm leaves out a null, and stores numbers in another form.
pub(super) fn has_values(stored: &StoredRelease, values: &Value) -> bool {
    is_same(&stored.values, values)
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names = one.keys().chain(other.keys());
            let field = |fields: &Map<String, Value>, name| fields.get(name).cloned();
            names.all(|name| {
                let (one, other) = (field(one, name), field(other, name));
                is_same(&one.unwrap_or_default(), &other.unwrap_or_default())
            })
        }
        (Value::Array(one), Value::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| is_same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        // Helm stores no values instead of an empty mapping.
        (Value::Null, Value::Object(fields)) | (Value::Object(fields), Value::Null) => {
            fields.values().all(Value::is_null)
        }
        _ => one == other,
    }
}

/// Returns a revision of a release.
///
/// # Errors
/// The API server does not answer, or Helm stores revisions in another form.
pub(super) async fn stored(
    server: Server<'_>,
    namespace: &str,
    revision: &Revision,
) -> Result<StoredRelease, StepError> {
    let stored = unpacked(server, namespace, &revision.secret).await?;
    Ok(StoredRelease {
        secrets: revision.secret_values(),
        ..stored
    })
}

async fn unpacked(
    server: Server<'_>,
    namespace: &str,
    secret: &str,
) -> Result<StoredRelease, StepError> {
    let words = ["secret", secret, "-n", namespace, "-o", RELEASE];
    let what = format!("read the revision {secret}");
    let found = server.find::<Secret>(&what, &words).await?;
    let failed = |error: &dyn Display| StepError::Other(Message::new(format!("{what}: {error}")));
    let found = found.ok_or_else(|| failed(&"the answer of kubectl is empty"))?;
    // Helm encodes the content, and the API encodes it again.
    let once = BASE64_STANDARD.decode(found.release);
    let once = once.map_err(|error| failed(&error))?;
    let packed = BASE64_STANDARD.decode(once);
    let packed = packed.map_err(|error| failed(&error))?;
    let mut text = Vec::new();
    let read = GzDecoder::new(packed.as_slice())
        .take(LARGEST)
        .read_to_end(&mut text);
    read.map_err(|error| failed(&error))?;
    // The message of the parser can quote a secret.
    serde_json::from_slice(&text).map_err(|_| failed(&"it is not JSON of a release"))
}

/// Returns the revision of a release whose objects the cluster has: Helm compares with it, and a newer one that failed has others.
///
/// # Errors
/// The API server does not answer, or Helm stores revisions in another form.
pub async fn stored_release(
    server: Server<'_>,
    release: &InstalledRelease,
) -> Result<StoredRelease, StepError> {
    revision(server, release, release.compared).await
}

/// Returns the namespaces that Helm deletes when it removes a release: those of its newest revision, without those that it keeps.
///
/// # Errors
/// The API server does not answer, or the revision cannot be read.
pub async fn removed_namespaces(
    server: Server<'_>,
    release: &InstalledRelease,
) -> Result<Vec<String>, StepError> {
    let stored = revision(server, release, release.revision).await?;
    let (manifest, resources) = (&stored.manifest, Resources::default());
    let objects = ManifestObject::parse(manifest, &release.namespace, &resources);
    let objects = objects.map_err(|error| StepError::Other(error.to_string().into()))?;
    let gone = objects.into_iter();
    let gone = gone.filter(|object| object.is_namespace() && !object.is_kept());
    Ok(gone.map(|object| object.name).collect())
}

async fn revision(
    server: Server<'_>,
    release: &InstalledRelease,
    number: u64,
) -> Result<StoredRelease, StepError> {
    let InstalledRelease {
        name, namespace, ..
    } = release;
    let secret = format!("sh.helm.release.v1.{name}.v{number}");
    unpacked(server, namespace, &secret).await
}

/// Returns the text of a revision as Helm stores it.
#[cfg(test)]
pub(super) fn packed(text: &str) -> String {
    use std::io::Write;

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let once = BASE64_STANDARD.encode(encoder.finish().unwrap());
    BASE64_STANDARD.encode(once)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::FakeApi;
    use serde_json::json;

    /// A release whose newest revision failed.
    fn release() -> InstalledRelease {
        InstalledRelease {
            name: "shop".to_owned(),
            namespace: "one".to_owned(),
            revision: 13,
            compared: 12,
            ..InstalledRelease::default()
        }
    }

    #[tokio::test]
    async fn deployed_revision_of_a_release_is_read() {
        let content = json!({"manifest": "kind: A\n", "config": {"a": 1}, "version": 12});
        let release = release();
        let read = async |text: &str| {
            let question = "secret sh.helm.release.v1.shop.v12 -n one";
            let host = FakeApi::new([(question, json!({"release": packed(text)}))]);
            let stored = stored_release(Server::of(&host), &release).await;
            stored.map_err(|error| error.to_string())
        };
        let stored = read(&content.to_string()).await.unwrap();
        assert_eq!(stored.manifest, "kind: A\n");
        assert_eq!(stored.values, json!({"a": 1}));
        let error = read("{\"manifest\": {\"password\": \"sesame\"}}")
            .await
            .unwrap_err();
        assert!(error.ends_with("it is not JSON of a release"), "{error}");
    }

    #[tokio::test]
    async fn namespaces_of_the_newest_revision_go_unless_helm_keeps_them() {
        let manifest = "{apiVersion: v1, kind: Namespace, metadata: {name: web}}\n---\n\
            {apiVersion: v1, kind: Namespace, metadata: {name: data, annotations: {helm.sh/resource-policy: keep}}}\n---\n\
            {apiVersion: example.org/v1, kind: Namespace, metadata: {name: other}}\n";
        let release = release();
        let question = "secret sh.helm.release.v1.shop.v13 -n one";
        let content = packed(&json!({"manifest": manifest}).to_string());
        let host = FakeApi::new([(question, json!({"release": content}))]);
        let gone = removed_namespaces(Server::of(&host), &release).await;
        assert_eq!(gone.unwrap(), ["web"]);
    }

    #[test]
    fn values_are_the_same_in_another_form() {
        let values = json!({"a": {"b": "sesame", "c": [1, 2.5]}, "d": null, "e": {}});
        let has = |stored: Value| is_same(&stored, &values);
        assert!(has(json!({"a": {"b": "sesame", "c": [1.0, 2.5]}})));
        assert!(!has(json!({"a": {"b": "other", "c": [1, 2.5]}})));
        assert!(!has(json!({"a": {"b": "sesame", "c": [1]}})));
        assert!(!has(
            json!({"a": {"b": "sesame", "c": [1, 2.5]}, "f": "gone"})
        ));
    }
}
