//! Objects of a manifest that Helm renders or stores.

use kubexm_render::RenderError;
use kubexm_render::objects::Objects;
use serde_json::Value;

use super::chart::POLICY;
use super::resources::Resources;

/// An object of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestObject {
    /// As in `apps/v1`.
    pub api_version: String,
    pub kind: String,
    /// `None` for an object without one, and for one that names none and whose kind the API server does not serve.
    pub namespace: Option<String>,
    pub name: String,
    /// The object. It may have secrets.
    pub value: Value,
}

impl ManifestObject {
    /// Reads a manifest. Objects without a namespace are in this one, as those that Helm creates.
    ///
    /// # Errors
    /// The text is not YAML, or a document is not an object. The error quotes no value.
    pub fn parse(
        manifest: &str,
        namespace: &str,
        resources: &Resources,
    ) -> Result<Vec<Self>, RenderError> {
        let mut all = Objects::parse("manifest of a release", manifest)?;
        all.flatten();
        let all = all.list().into_iter();
        Ok(all
            .map(|object| Self::of(object, namespace, resources))
            .collect())
    }

    fn of(value: Value, namespace: &str, resources: &Resources) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&value["apiVersion"]), text(&value["kind"]));
        let own = value["metadata"]["namespace"].as_str().map(str::to_owned);
        let default = resources.is_namespaced(&api_version, &kind);
        Self {
            namespace: own.or_else(|| default.then(|| namespace.to_owned())),
            name: text(&value["metadata"]["name"]),
            api_version,
            kind,
            value,
        }
    }

    /// Returns whether both are the same object, of which the content and the API version can differ.
    pub fn is(&self, other: &Self) -> bool {
        let group = |one: &Self| {
            let group = one.api_version.split_once('/');
            group.map(|(group, _)| group.to_owned())
        };
        (&self.kind, &self.namespace, &self.name) == (&other.kind, &other.namespace, &other.name)
            && group(self) == group(other)
    }

    pub(super) fn is_secret(&self) -> bool {
        (self.api_version.as_str(), self.kind.as_str()) == ("v1", "Secret")
    }

    /// Returns whether it is a namespace, which goes with everything in it.
    pub fn is_namespace(&self) -> bool {
        (self.api_version.as_str(), self.kind.as_str()) == ("v1", "Namespace")
    }

    /// Returns whether Helm leaves the object in the cluster when a chart does not have it any more.
    pub fn is_kept(&self) -> bool {
        self.value["metadata"]["annotations"][POLICY] == "keep"
    }
}
