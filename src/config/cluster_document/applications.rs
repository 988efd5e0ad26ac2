//! `spec.applications`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::controller_file::{expand_home, report_missing};
use crate::cluster::{Application, ApplicationContent, ApplicationValues};
use crate::reader::Fields;
use kubexm_types::{Namespace, ReleaseName, Secret};

/// Time limit of an application without `timeoutSeconds`.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Reads the applications, in an order in which each is after those that it needs.
pub(super) fn read_applications(spec: &Fields<'_>) -> Vec<Application> {
    let mut names = BTreeSet::new();
    let read = spec.sections("applications", |fields| {
        let application = read_application(fields)?;
        if !names.insert(application.name.clone()) {
            let message = format!("another application has the name {}", application.name);
            fields.problem("name", message, Some("give each application another name"));
        }
        Some(application)
    });
    in_order(spec, read)
}

fn read_application(fields: &Fields<'_>) -> Option<Application> {
    let name = fields
        .required("name")
        .and_then(|_| fields.value::<ReleaseName>("name"));
    let namespace = fields.value::<Namespace>("namespace");
    let content = read_content(fields);
    let needs = fields.values("needs");
    let waits = fields.flag("wait", true);
    let timeout = fields.number("timeoutSeconds", 1, 86_400);
    let timeout = timeout.map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
    Some(Application {
        name: name?,
        namespace: namespace.unwrap_or_default(),
        content: content?,
        needs,
        waits,
        timeout: timeout.unwrap_or(TIMEOUT),
    })
}

fn read_content(fields: &Fields<'_>) -> Option<ApplicationContent> {
    let chart = fields.text("chart");
    let version = fields.text("version");
    let manifests: Vec<String> = fields.values("manifests");
    let values = read_values(fields);
    match (chart, manifests.is_empty()) {
        (Some(name), true) => Some(ApplicationContent::Chart {
            name,
            version,
            values,
        }),
        (None, false) => {
            let hint = "remove it: only charts have it";
            for name in ["version", "values", "valuesFiles"] {
                if fields.get(name).is_some() {
                    fields.problem(name, "is not accepted with manifests", Some(hint));
                }
            }
            Some(ApplicationContent::Manifests(manifests))
        }
        _ => {
            let hint =
                "name a chart of the bundle, or manifests, as `kubexm bundle list` prints them";
            fields.problem_here("expected either chart or manifests", Some(hint));
            None
        }
    }
}

fn read_values(fields: &Fields<'_>) -> ApplicationValues {
    let own = fields.get("values").map(|_| fields.json_object("values"));
    let names: Vec<String> = fields.values("valuesFiles");
    let files = names.iter().map(|name| {
        let path = expand_home(name);
        if !path.is_file() {
            report_missing(fields, "valuesFiles", &path);
        }
        path
    });
    ApplicationValues {
        files: files.collect(),
        own: own.map(|own| Secret(own.to_string())),
    }
}

/// Sorts applications, so that each is after those that it needs, and otherwise keeps their order.
fn in_order(spec: &Fields<'_>, mut left: Vec<Application>) -> Vec<Application> {
    let names: BTreeSet<ReleaseName> = left.iter().map(|one| one.name.clone()).collect();
    let mut sorted: Vec<Application> = Vec::new();
    for application in &left {
        let unknown = application.needs.iter().find(|name| !names.contains(name));
        if let Some(unknown) = unknown {
            let message = format!(
                "{} needs {unknown}, which is not in the list",
                application.name
            );
            spec.problem(
                "applications",
                message,
                Some("add it, or remove it from needs"),
            );
            return sorted;
        }
    }
    while !left.is_empty() {
        let is_next = |one: &Application| {
            let mut needs = one.needs.iter();
            needs.all(|name| sorted.iter().any(|before| before.name == *name))
        };
        let Some(at) = left.iter().position(is_next) else {
            let names: Vec<&str> = left.iter().map(|one| one.name.as_str()).collect();
            let message = format!("applications need each other: {}", names.join(", "));
            spec.problem(
                "applications",
                message,
                Some("remove one of them from needs"),
            );
            break;
        };
        sorted.push(left.remove(at));
    }
    sorted
}
