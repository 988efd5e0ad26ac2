//! Writes CycloneDX 1.6 (<https://cyclonedx.org/docs/1.6/json/>).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Inventory;
use super::document::{Stamp, uuid};
use super::graph::{Component, Kind};
use super::licence::{self, Licence};

/// Returns the document of an inventory.
pub fn document(inventory: &Inventory, stamp: Stamp) -> Value {
    let graph = &inventory.graph;
    let all = graph.components();
    let (root, rest): (Vec<_>, Vec<_>) = all.iter().copied().partition(|c| c.id == inventory.root);
    let mut metadata = json!({
        "tools": {"components": [{
            "type": "application", "name": "kubexm", "version": env!("CARGO_PKG_VERSION"),
        }]},
    });
    if let Some(time) = stamp.text() {
        metadata["timestamp"] = time.into();
    }
    metadata["component"] = root.first().map(|root| component(root)).into();
    let notes = inventory.notes.iter();
    let notes: Vec<Value> = notes
        .map(|note| json!({"name": "kubexm:not-known", "value": note}))
        .collect();
    if !notes.is_empty() {
        metadata["properties"] = notes.into();
    }
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": format!("urn:uuid:{}", uuid(inventory)),
        "version": 1,
        "metadata": metadata,
        "components": rest.iter().map(|c| component(c)).collect::<Vec<_>>(),
        "dependencies": all.iter().map(|c| dependencies(inventory, c)).collect::<Vec<_>>(),
    })
}

fn component(component: &Component) -> Value {
    let kind = match component.kind {
        Kind::Bundle | Kind::File | Kind::Program => "application",
        Kind::Image => "container",
        Kind::Artifact => "file",
        Kind::Package | Kind::Module | Kind::Crate => "library",
    };
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            out.insert(key.to_owned(), value);
        }
    };
    put("type", kind.into());
    put("bom-ref", component.id.as_str().into());
    let supplier = component.supplier.as_ref();
    put(
        "supplier",
        supplier.map(|name| json!({"name": name})).into(),
    );
    put("name", component.name.as_str().into());
    put("version", component.version.as_deref().into());
    let digest = component.digest.as_ref();
    put(
        "hashes",
        digest
            .map(|digest| json!([{"alg": "SHA-256", "content": digest.hex()}]))
            .into(),
    );
    let licence = component.licence.as_deref().map(licence::read);
    put(
        "licenses",
        licence
            .map(|licence| match licence {
                Licence::Expression(text) => json!([{"expression": text}]),
                Licence::Text(text) => json!([{"license": {"name": text}}]),
            })
            .into(),
    );
    put("purl", component.purl.as_deref().into());
    let source = component.source.as_ref();
    put(
        "externalReferences",
        source
            .map(|url| json!([{"type": "distribution", "url": url}]))
            .into(),
    );
    if !component.places.is_empty() {
        let places = component.places.iter();
        let places: Vec<Value> = places.map(|place| json!({"location": place})).collect();
        put("evidence", json!({"occurrences": places}));
    }
    Value::Object(out)
}

/// Returns the dependencies of a component. The format does not distinguish contained and compiled
/// components.
fn dependencies(inventory: &Inventory, component: &Component) -> Value {
    let below = inventory.graph.below(&component.id);
    let below: BTreeSet<&str> = below.map(|(_, id)| id.as_str()).collect();
    json!({"ref": component.id, "dependsOn": below})
}
