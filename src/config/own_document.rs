//! `files`, `charts` and `manifests` of a bundle manifest.

use super::reader::Fields;
use kubexm_types::Digest;
use kubexm_types::own::{OwnKind, OwnPlace, OwnSource};

/// Everything of the user's own that a manifest's `spec` names.
pub fn read(spec: &Fields<'_>) -> Vec<OwnSource> {
    let reader = spec.reader();
    let mut own = Vec::new();
    for (name, kind) in [("files", OwnKind::File), ("charts", OwnKind::Chart)] {
        let Some(node) = spec.get(name) else {
            continue;
        };
        for (item, path) in reader.items(node, &spec.path(name)) {
            let fields = reader.fields(item, &path);
            own.extend(match kind {
                OwnKind::Chart => chart(&fields),
                _ => file(&fields),
            });
            fields.finish();
        }
    }
    let manifests: Vec<OwnPlace> = spec.values("manifests");
    own.extend(
        manifests
            .into_iter()
            .map(|place| OwnSource::new(OwnKind::Manifest, place)),
    );
    own
}

fn file(fields: &Fields<'_>) -> Option<OwnSource> {
    let name = fields.required("name").and_then(|_| fields.text("name"));
    let place = path_or_url(fields);
    let sha256 = fields.value::<Digest>("sha256");
    let Some(place) = place else {
        one_place(fields, "give a path or a url");
        return None;
    };
    Some(OwnSource {
        name: Some(name?),
        sha256,
        ..OwnSource::new(OwnKind::File, place)
    })
}

fn chart(fields: &Fields<'_>) -> Option<OwnSource> {
    let given = path_or_url(fields);
    let repository: Option<OwnPlace> = fields.value("repository");
    let (chart, version) = (fields.text("name"), fields.text("version"));
    let sha256 = fields.value::<Digest>("sha256");
    let values: Vec<String> = fields.values("values");
    let place = match (given, repository, chart, version) {
        (Some(place), None, None, None) => Some(place),
        (None, Some(OwnPlace::Address(url)), Some(chart), Some(version)) => {
            Some(OwnPlace::Repository {
                url,
                chart,
                version,
            })
        }
        _ => None,
    };
    let Some(place) = place else {
        one_place(
            fields,
            "give a path, a url, or repository with name and version",
        );
        return None;
    };
    Some(OwnSource {
        sha256,
        values: values.into_iter().map(Into::into).collect(),
        ..OwnSource::new(OwnKind::Chart, place)
    })
}

/// The one of the two that is given; none where both are.
fn path_or_url(fields: &Fields<'_>) -> Option<OwnPlace> {
    let path = fields.text("path").map(|path| OwnPlace::Path(path.into()));
    let url = fields.value::<OwnPlace>("url");
    match (path, url) {
        (Some(_), Some(_)) => None,
        (path, url) => path.or(url),
    }
}

fn one_place(fields: &Fields<'_>, hint: &str) {
    let message = "does not say where it is had from, or says it twice";
    let place = fields.path("");
    let reader = fields.reader();
    reader.problem(
        fields.node(),
        place.trim_end_matches('.'),
        message,
        Some(hint),
    );
}
