//! `files`, `charts`, `manifests` and `imagePaths` of a bundle manifest.

use super::reader::Fields;
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
    artifacts
}

/// Reads a field of custom resources that names an image.
pub fn image_path(fields: &Fields<'_>) -> Option<ImagePath> {
    fields.required("kind");
    fields.required("path");
    let (kind, path) = (fields.text("kind"), fields.value("path"));
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
