//! `files`, `charts`, `manifests`, `kustomizations` and `imagePaths` of a bundle manifest.

use super::reader::Fields;
use super::yaml::Value;
use kubexm_types::artifact::{ArtifactKind, ArtifactLocation, ArtifactSource};
use kubexm_types::{Digest, ImagePath};

/// Reads the artifacts that the `spec` of a manifest names.
pub fn read(spec: &Fields<'_>) -> Vec<ArtifactSource> {
    let mut artifacts = spec.sections("files", file);
    artifacts.extend(spec.sections("charts", chart));
    let manifests: Vec<ArtifactLocation> = spec.values("manifests");
    artifacts.extend(
        manifests
            .into_iter()
            .map(|location| ArtifactSource::new(ArtifactKind::Manifest, location)),
    );
    artifacts.extend(kustomizations(spec));
    artifacts
}

/// Reads directories of kustomizations: paths, or mappings with a path and the name of the manifest.
fn kustomizations(spec: &Fields<'_>) -> Vec<ArtifactSource> {
    let (reader, name) = (spec.reader(), "kustomizations");
    let Some(node) = spec.get(name) else {
        return Vec::new();
    };
    let items = reader.items(node, &spec.path(name)).into_iter();
    let sources = items.filter_map(|(item, place)| {
        let (path, name) = match &item.value {
            Value::Map(_) => {
                let fields = reader.fields(item, &place);
                fields.required("path");
                let read = (fields.text("path"), fields.text("name"));
                fields.finish();
                read
            }
            _ => (reader.text(item, &place), None),
        };
        let path = path?;
        if path.contains("://") {
            let hint = "download it, and name its directory: a build renders without a network";
            reader.problem(item, &place, "expected a directory", Some(hint));
            return None;
        }
        let location = ArtifactLocation::Path(path.into());
        Some(ArtifactSource {
            name,
            ..ArtifactSource::new(ArtifactKind::Manifest, location)
        })
    });
    sources.collect()
}

/// Reads a field of custom resources that names an image.
pub fn image_path(fields: &Fields<'_>) -> Option<ImagePath> {
    fields.required("kind");
    fields.required("path");
    let (kind, path) = (fields.value("kind"), fields.value("path"));
    Some(ImagePath {
        kind: kind?,
        path: path?,
    })
}

fn file(fields: &Fields<'_>) -> Option<ArtifactSource> {
    let name = fields.required("name").and_then(|_| fields.text("name"));
    let location = path_or_url(fields);
    let sha256 = fields.value::<Digest>("sha256");
    let Some(location) = location else {
        refuse_location(fields, "give a path or a url");
        return None;
    };
    Some(ArtifactSource {
        name: Some(name?),
        sha256,
        ..ArtifactSource::new(ArtifactKind::File, location)
    })
}

fn chart(fields: &Fields<'_>) -> Option<ArtifactSource> {
    let given = path_or_url(fields);
    let repository: Option<ArtifactLocation> = fields.value("repository");
    let (chart, version) = (fields.text("name"), fields.text("version"));
    let sha256 = fields.value::<Digest>("sha256");
    let values: Vec<String> = fields.values("values");
    let location = match (given, repository, chart, version) {
        (Some(location), None, None, None) => Some(location),
        (None, Some(ArtifactLocation::Address(url)), Some(chart), Some(version)) => {
            Some(ArtifactLocation::Repository {
                url,
                chart,
                version,
            })
        }
        _ => None,
    };
    let Some(location) = location else {
        refuse_location(
            fields,
            "give a path, a url, or repository with name and version",
        );
        return None;
    };
    Some(ArtifactSource {
        sha256,
        values: values.into_iter().map(Into::into).collect(),
        ..ArtifactSource::new(ArtifactKind::Chart, location)
    })
}

/// Returns the path or the url; `None` if both or none of them is given.
fn path_or_url(fields: &Fields<'_>) -> Option<ArtifactLocation> {
    let path = fields
        .text("path")
        .map(|path| ArtifactLocation::Path(path.into()));
    let url = fields.value::<ArtifactLocation>("url");
    match (path, url) {
        (Some(_), Some(_)) => None,
        (path, url) => path.or(url),
    }
}

fn refuse_location(fields: &Fields<'_>, hint: &str) {
    fields.problem_here("expected exactly one location", Some(hint));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_manifest;

    fn manifest(spec: &str) -> Result<crate::manifest::Manifest, String> {
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {{name: b}}\nspec:\n  architectures: [amd64]\n  {spec}\n"
        );
        parse_manifest("b.yaml", &text).map_err(|problems| problems.to_string())
    }

    #[test]
    fn kustomizations_are_paths_with_or_without_a_name() {
        let read =
            manifest("kustomizations: [overlays/site, {path: a/overlays/site, name: a.yaml}]");
        let sources = read.unwrap().artifacts;
        let found: Vec<(String, Option<&str>)> = sources
            .iter()
            .map(|source| (source.location.to_string(), source.name.as_deref()))
            .collect();
        let expected = [
            ("overlays/site".to_owned(), None),
            ("a/overlays/site".to_owned(), Some("a.yaml")),
        ];
        assert_eq!(found, expected);
        assert!(sources.iter().all(|s| s.kind == ArtifactKind::Manifest));
        let one = manifest("kustomizations: overlays/site").unwrap();
        assert_eq!(one.artifacts.len(), 1);
        for (spec, expected) in [
            ("kustomizations: [{name: a.yaml}]", "is missing"),
            (
                "kustomizations: ['https://x.example/app']",
                "expected a directory",
            ),
        ] {
            let problems = manifest(spec).unwrap_err();
            assert!(problems.contains(expected), "{problems}");
        }
    }

    #[test]
    fn artifacts_of_registries_have_a_tag_or_a_digest() {
        let pinned = format!("a.example/model@{}", Digest::of(b""));
        let read = manifest(&format!("artifacts: [a.example/policy:1, '{pinned}']"));
        let names: Vec<String> = read
            .unwrap()
            .oci_artifacts
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["a.example/policy:1", &pinned]);
        let problems = manifest("artifacts: [a.example/policy]").unwrap_err();
        assert!(
            problems.contains("expected a tag or a digest"),
            "{problems}"
        );
    }
}
