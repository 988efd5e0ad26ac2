//! Adapts the Kubernetes objects of a project's manifest to a cluster.

use serde_json::{Value, json};

use super::RenderError;
use kubexm_types::Digest;

/// Fields of a Secret that have no secret.
const SHOWN: [&str; 4] = ["apiVersion", "kind", "metadata", "type"];
/// `kubectl apply` keeps the whole object in this annotation.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The objects of a manifest, in their original order.
pub struct Objects {
    what: &'static str,
    list: Vec<Value>,
}

impl Objects {
    /// Parses a manifest. `what` is its name in errors.
    ///
    /// # Errors
    /// The text is not YAML, or a document is not a Kubernetes object.
    pub fn parse(what: &'static str, text: &str) -> Result<Self, RenderError> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: 100, max_nodes: 1_000_000, max_events: 3_000_000, max_total_scalar_bytes: 32 * 1024 * 1024, max_documents: 4096 },
            with_snippet: false,
        };
        let mut list: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
            .map_err(|error| RenderError::new(what, error))?;
        let is_other = |object: &Value| !object.is_null() && !object["kind"].is_string();
        if let Some(index) = list.iter().position(is_other) {
            // The document can have secrets.
            let text = format!("its document {} is not a Kubernetes object", index + 1);
            return Err(RenderError::new(what, text));
        }
        list.retain(|object| !object.is_null());
        Ok(Self { what, list })
    }

    /// Returns the objects.
    pub fn list(self) -> Vec<Value> {
        self.list
    }

    /// Takes the objects of a kind out of the manifest.
    #[must_use]
    pub fn take(&mut self, kind: &str) -> Self {
        let list = self.list.extract_if(.., |object| object["kind"] == kind);
        Self {
            what: self.what,
            list: list.collect(),
        }
    }

    /// Replaces each list (`kind: List`) by its items.
    pub fn flatten(&mut self) {
        let all = std::mem::take(&mut self.list).into_iter();
        self.list = all.flat_map(items).collect();
    }

    /// Sets an annotation of all objects of a kind.
    pub fn annotate(&mut self, kind: &str, name: &str, value: &str) {
        for object in self.list.iter_mut().filter(|one| one["kind"] == kind) {
            let metadata = &mut object["metadata"];
            if !metadata.is_object() {
                *metadata = json!({});
            }
            let annotations = &mut metadata["annotations"];
            if !annotations.is_object() {
                *annotations = json!({});
            }
            annotations[name] = value.into();
        }
    }

    /// Returns the objects without the content of Secrets, and that content.
    #[must_use]
    pub fn without_secrets(mut self) -> (Self, Vec<Value>) {
        let mut taken = Vec::new();
        for object in self.list.iter_mut().filter(|one| one["kind"] == "Secret") {
            let Some(fields) = object.as_object_mut() else {
                continue;
            };
            fields.retain(|name, value| {
                let is_shown = SHOWN.contains(&name.as_str());
                if !is_shown {
                    taken.push(value.take());
                }
                is_shown
            });
            let annotations = object.pointer_mut("/metadata/annotations");
            let annotations = annotations.and_then(Value::as_object_mut);
            taken.extend(annotations.and_then(|all| all.shift_remove(APPLIED)));
        }
        (self, taken)
    }

    /// Returns the object of a kind and name.
    ///
    /// # Errors
    /// The manifest has no such object.
    pub fn object(&mut self, kind: &str, name: &str) -> Result<&mut Value, RenderError> {
        let is = |object: &&mut Value| object["kind"] == kind && object["metadata"]["name"] == name;
        let missing = RenderError::new(self.what, format!("its manifest has no {kind} {name}"));
        self.list.iter_mut().find(is).ok_or(missing)
    }

    /// Returns a container of a DaemonSet or a Deployment.
    ///
    /// # Errors
    /// The manifest has no such object or container.
    pub fn container(
        &mut self,
        kind: &str,
        name: &str,
        container: &str,
    ) -> Result<&mut Value, RenderError> {
        let what = self.what;
        let object = self.object(kind, name)?;
        let containers = object["spec"]["template"]["spec"]["containers"].as_array_mut();
        let mut containers = containers.into_iter().flatten();
        containers
            .find(|one| one["name"] == container)
            .ok_or_else(|| {
                RenderError::new(what, format!("{kind} {name} has no container {container}"))
            })
    }

    /// Lets the pods of a DaemonSet restart when a ConfigMap of the manifest changes, which they read only when they start:
    /// an annotation of the pods has the digest of its data. Does nothing without the DaemonSet.
    ///
    /// # Errors
    /// The manifest has no such ConfigMap.
    pub fn restart_with(&mut self, daemon_set: &str, config_map: &str) -> Result<(), RenderError> {
        let data = self.object("ConfigMap", config_map)?["data"].to_string();
        let digest = Digest::of(data.as_bytes()).hex();
        if let Ok(object) = self.object("DaemonSet", daemon_set) {
            let annotations = &mut object["spec"]["template"]["metadata"]["annotations"];
            if !annotations.is_object() {
                *annotations = json!({});
            }
            annotations["kubexm.io/config"] = digest.into();
        }
        Ok(())
    }

    /// Removes the descriptions from custom resource definitions. They are the largest part, and only
    /// `kubectl explain` uses them.
    pub fn drop_descriptions(&mut self) {
        let is_definition = |object: &&mut Value| object["kind"] == "CustomResourceDefinition";
        for definition in self.list.iter_mut().filter(is_definition) {
            for version in definition["spec"]["versions"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                drop_description(&mut version["schema"]["openAPIV3Schema"]);
            }
        }
    }

    /// Returns the manifest. All strings are quoted, because YAML parsers differ in which plain words they read as
    /// booleans or null.
    ///
    /// # Errors
    /// An object cannot be serialized.
    pub fn text(&self) -> Result<String, RenderError> {
        let options = serde_saphyr::ser_options! { quote_all: true, prefer_block_scalars: false };
        let mut text = String::new();
        for object in &self.list {
            let object = serde_saphyr::to_string_with_options(object, options.clone())
                .map_err(|error| RenderError::new(self.what, error))?;
            text.push_str("---\n");
            text.push_str(object.trim_end());
            text.push('\n');
        }
        Ok(text)
    }
}

/// Returns the items of a list, or the object itself. Items of a list such as `RoleList` need no kind and no version.
fn items(mut object: Value) -> Vec<Value> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some(kind) = kind.strip_suffix("List").map(str::to_owned) else {
        return vec![object];
    };
    let version = object["apiVersion"].clone();
    let Some(Value::Array(items)) = object.get_mut("items").map(Value::take) else {
        return vec![object];
    };
    let named = items.into_iter().map(|mut item| {
        if !kind.is_empty() && item.is_object() && item["kind"].is_null() {
            item["kind"] = kind.clone().into();
            item["apiVersion"] = version.clone();
        }
        item
    });
    named.collect()
}

/// Sets an environment variable of a container, and replaces its former value.
pub fn set_variable(container: &mut Value, name: &str, value: &str) {
    let variable = json!({"name": name, "value": value});
    if !container["env"].is_array() {
        container["env"] = json!([]);
    }
    let Some(variables) = container["env"].as_array_mut() else {
        return;
    };
    match variables.iter_mut().find(|one| one["name"] == name) {
        Some(former) => *former = variable,
        None => variables.push(variable),
    }
}

/// Removes the descriptions from a schema. Below `properties`, `description` is the name of a field.
fn drop_description(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    schema.shift_remove("description");
    for (name, inner) in schema.iter_mut() {
        match name.as_str() {
            "properties" => inner
                .as_object_mut()
                .into_iter()
                .flat_map(|properties| properties.values_mut())
                .for_each(drop_description),
            "items" | "additionalProperties" | "not" => drop_description(inner),
            "allOf" | "anyOf" | "oneOf" => inner
                .as_array_mut()
                .into_iter()
                .flatten()
                .for_each(drop_description),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
kind: CustomResourceDefinition
metadata: {name: things.example}
spec:
  versions:
    - schema:
        openAPIV3Schema:
          description: see https://example.org
          properties:
            description: {type: string, description: of a thing}
            list: {items: {description: one}}
---
# Nothing but a comment.
---
kind: DaemonSet
metadata: {name: node}
spec: {template: {spec: {containers: [{name: node, env: [{name: A, value: 'off'}]}]}}}
";

    #[test]
    fn objects_keep_their_meaning() {
        let mut objects = Objects::parse("t", TEXT).unwrap();
        objects.drop_descriptions();
        let node = objects.container("DaemonSet", "node", "node").unwrap();
        set_variable(node, "B", "null");
        set_variable(node, "A", "yes");
        let text = objects.text().unwrap();
        assert!(text.contains("value: 'yes'"), "{text}");
        assert!(!text.contains("example.org"), "{text}");
        let again: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(again, objects.list);
        let schema = &again[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let wanted =
            json!({"properties": {"description": {"type": "string"}, "list": {"items": {}}}});
        assert_eq!(*schema, wanted);
        assert!(objects.object("DaemonSet", "other").is_err());
        assert!(Objects::parse("t", "- a list").is_err());
    }

    #[test]
    fn pods_change_exactly_when_the_data_of_their_config_map_changes() {
        let pods = |data: &str| {
            let config_map =
                format!("---\nkind: ConfigMap\nmetadata: {{name: config}}\ndata: {data}\n");
            let mut objects = Objects::parse("t", &format!("{TEXT}{config_map}")).unwrap();
            objects.restart_with("node", "config").unwrap();
            objects.restart_with("absent", "config").unwrap();
            objects.object("DaemonSet", "node").unwrap()["spec"]["template"].clone()
        };
        assert_eq!(pods("{mtu: '1450'}"), pods("{mtu: '1450'} # the same"));
        assert_ne!(pods("{mtu: '1450'}"), pods("{mtu: '1400'}"));
        let mut without = Objects::parse("t", TEXT).unwrap();
        assert!(without.restart_with("node", "config").is_err());
    }
}
