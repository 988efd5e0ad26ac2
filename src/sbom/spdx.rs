//! Writes SPDX 2.3 as JSON (<https://spdx.github.io/spdx-spec/v2.3/>).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Inventory;
use super::document::{Stamp, uuid};
use super::graph::{Component, Kind, Relation};
use super::licence::{self, Licence};
use kubexm_types::Digest;

/// The value of required members without information.
const UNKNOWN: &str = "NOASSERTION";
/// The time of a reproducible document, because the format requires one.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// Returns the document of an inventory.
pub fn document(inventory: &Inventory, stamp: Stamp) -> Value {
    let graph = &inventory.graph;
    let all = graph.components();
    let notes: Vec<&str> = inventory.notes.iter().map(String::as_str).collect();
    let mut texts = BTreeMap::new();
    let packages: Vec<Value> = all.iter().map(|c| package(c, &mut texts)).collect();
    let mut relationships = vec![relationship(
        "SPDXRef-DOCUMENT",
        "DESCRIBES",
        &reference(Kind::Bundle, &inventory.root),
    )];
    for component in &all {
        let own = reference(component.kind, &component.id);
        for (relation, id) in graph.below(&component.id) {
            let word = match relation {
                Relation::Contains => "CONTAINS",
                Relation::BuiltFrom => "STATIC_LINK",
            };
            if let Some(other) = graph.get(id) {
                relationships.push(relationship(&own, word, &reference(other.kind, id)));
            }
        }
    }
    let licences: Vec<Value> = texts
        .iter()
        .map(|(reference, text)| json!({"licenseId": reference, "extractedText": text, "name": text}))
        .collect();
    let mut document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": inventory.name,
        "documentNamespace": format!("https://spdx.org/spdxdocs/kubexm-{}", uuid(inventory)),
        "creationInfo": {
            "created": stamp.text().unwrap_or_else(|| NO_TIME.to_owned()),
            "creators": [format!("Tool: kubexm-{}", env!("CARGO_PKG_VERSION"))],
        },
    });
    if !notes.is_empty() {
        document["comment"] = format!("Not known:\n{}", notes.join("\n")).into();
    }
    document["packages"] = packages.into();
    document["hasExtractedLicensingInfos"] = licences.into();
    document["relationships"] = relationships.into();
    document
}

fn relationship(from: &str, word: &str, to: &str) -> Value {
    json!({"spdxElementId": from, "relationshipType": word, "relatedSpdxElement": to})
}

/// Returns an SPDX identifier, which may contain only letters, digits, `.` and `-`.
fn reference(kind: Kind, id: &str) -> String {
    let kind = kind.name().replace(' ', "-");
    format!("SPDXRef-{kind}-{}", &Digest::of(id.as_bytes()).hex()[..24])
}

fn package(component: &Component, texts: &mut BTreeMap<String, String>) -> Value {
    let purpose = match component.kind {
        Kind::Bundle => "ARCHIVE",
        Kind::File | Kind::Program => "APPLICATION",
        Kind::Image => "CONTAINER",
        Kind::Artifact => "OTHER",
        Kind::Package | Kind::Module | Kind::Crate => "LIBRARY",
    };
    let licence = component.licence.as_deref().map(licence::read);
    let declared = match licence {
        None => UNKNOWN.to_owned(),
        Some(Licence::Expression(text)) => text.to_owned(),
        Some(Licence::Text(text)) => {
            let digest = Digest::of(text.as_bytes()).hex();
            let reference = format!("LicenseRef-{}", &digest[..16]);
            texts.insert(reference.clone(), text.to_owned());
            reference
        }
    };
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            out.insert(key.to_owned(), value);
        }
    };
    put("SPDXID", reference(component.kind, &component.id).into());
    put("name", component.name.as_str().into());
    put("versionInfo", component.version.as_deref().into());
    let supplier = component.supplier.as_deref().and_then(organisation);
    put("supplier", supplier.into());
    let source = component.source.as_deref();
    put("downloadLocation", source.unwrap_or(UNKNOWN).into());
    put("filesAnalyzed", false.into());
    let digest = component.digest.as_ref();
    put(
        "checksums",
        digest
            .map(|digest| json!([{"algorithm": "SHA256", "checksumValue": digest.hex()}]))
            .into(),
    );
    put("licenseConcluded", UNKNOWN.into());
    put("licenseDeclared", declared.into());
    put("copyrightText", UNKNOWN.into());
    put("primaryPackagePurpose", purpose.into());
    let purl = component.purl.as_deref();
    put(
        "externalRefs",
        purl.map(|purl| {
            json!([{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }])
        })
        .into(),
    );
    if !component.places.is_empty() {
        let places: Vec<&str> = component.places.iter().map(String::as_str).collect();
        put(
            "sourceInfo",
            format!("found in:\n{}", places.join("\n")).into(),
        );
    }
    Value::Object(out)
}

/// Returns a supplier in the format's notation. Replaces parentheses, because the format reads their content
/// as an e-mail address.
fn organisation(name: &str) -> Option<String> {
    let name = name.split('<').next()?.replace('(', "[").replace(')', "]");
    let name = name.trim();
    (!name.is_empty()).then(|| format!("Organization: {name}"))
}
