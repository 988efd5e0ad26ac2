//! Images of a chart without Helm, from its annotations and the text of its values and templates. All results are guesses.

use serde_json::Value;

use super::chart::Chart;
use super::images::{Found, images_in_lines, images_in_text, joined, parse};

/// Maximum number of lines with variables in the result.
const MOST_UNKNOWN: usize = 20;

/// Annotations with the images of a chart: <https://artifacthub.io/docs/topics/annotations/helm/> and
/// <https://github.com/helm/community/blob/main/hips/hip-0015.md>.
const ANNOTATIONS: [&str; 3] = ["artifacthub.io/images", "helm.sh/images", "images"];

/// Returns the images that the annotations of a chart name. They have those of parts that values do not select, too.
pub fn images_in_annotations(chart: &Chart) -> Vec<Found> {
    let texts = ANNOTATIONS
        .iter()
        .filter_map(|name| Some((name, chart.annotations.get(*name)?)));
    let mut found = Vec::new();
    for (name, text) in texts {
        let place = format!("Chart.yaml, annotations.{name}");
        found.extend(images_in_text(text, &place).into_iter().map(by_helm));
    }
    found
}

/// Returns everything in a chart that looks like an image.
pub fn images_in_chart(chart: &Chart) -> Vec<Found> {
    let mut found = Vec::new();
    for (path, text) in &chart.files {
        if path.ends_with("/values.yaml") {
            // The chart's version does not apply to its dependencies.
            let own = path.matches('/').count() == 1;
            let default = chart.app_version.as_deref().filter(|_| own);
            let values = parse(text).unwrap_or_default();
            walk(&values, path, &mut Vec::new(), default, &mut found);
        } else {
            found.extend(images_in_lines(text, path).into_iter().map(by_helm));
        }
    }
    let mut unknown = 0;
    found.retain(|one| {
        unknown += usize::from(one.image.is_err());
        one.image.is_ok() || unknown <= MOST_UNKNOWN
    });
    found
}

/// Replaces the reason for a value with a template variable.
fn by_helm(mut found: Found) -> Found {
    if found.text.contains("{{") {
        found.image = Err("only helm can resolve its value".to_owned());
    }
    found
}

fn walk<'v>(
    value: &'v Value,
    file: &str,
    path: &mut Vec<&'v str>,
    default: Option<&str>,
    found: &mut Vec<Found>,
) {
    match value {
        Value::Array(items) => {
            for item in items {
                walk(item, file, path, default, found);
            }
        }
        Value::Object(fields) => {
            if let Some(text) = joined(value, default) {
                let place = format!("{file}, {}", path.join("."));
                found.push(Found::new(&text, place, false));
            }
            for (key, field) in fields {
                path.push(key);
                match field {
                    Value::String(text) if key == "image" && text.contains(['/', ':']) => {
                        let place = format!("{file}, {}", path.join("."));
                        found.push(Found::new(text, place, false));
                    }
                    _ => walk(field, file, path, default, found),
                }
                path.pop();
            }
        }
        _ => {}
    }
}
