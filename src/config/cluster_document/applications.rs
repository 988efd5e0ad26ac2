//! `spec.applications`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::controller_file::{expand_home, read_file, report_missing};
use super::password::{notice_readers, read_variable};
use crate::cluster::{
    Addon, Application, ApplicationContent, ApplicationValues, SecretValue, SiteObjects,
    ValueSource,
};
use crate::reader::{Fields, accept};
use kubexm_types::{Namespace, ReleaseName, Secret};

/// Time limit of an application without `timeoutSeconds`.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Reads the applications, in an order in which each is after those that it needs.
pub(super) fn read_applications(spec: &Fields<'_>) -> Vec<Application> {
    let mut names = BTreeSet::new();
    let read = spec.sections("applications", |fields| {
        let applications = read_application(fields)?;
        for application in &applications {
            if !names.insert(application.name.clone()) {
                let message = format!("another application has the name {}", application.name);
                let hint = "give each application another name";
                fields.problem_here(message, Some(hint));
            }
        }
        Some(applications)
    });
    let mut read: Vec<Application> = read.into_iter().flatten().collect();
    need_objects(&mut read);
    in_order(spec, read)
}

/// Reads an application, and the objects of an add-on after it.
fn read_application(fields: &Fields<'_>) -> Option<Vec<Application>> {
    let addon = fields.choice("addon", accept(Addon::NAMES));
    let addon = addon.and_then(Addon::named);
    let name = match addon {
        Some(addon) if fields.get("name").is_none() => ReleaseName::parse(addon.name()).ok(),
        // The name of an unknown add-on is a problem already.
        None if fields.get("addon").is_some() => None,
        _ => fields.required("name").and_then(|_| fields.value("name")),
    };
    let namespace = match addon {
        Some(addon) if fields.get("namespace").is_none() => {
            Namespace::parse(addon.properties().namespace).ok()
        }
        _ => fields.value("namespace"),
    };
    let content = read_content(fields, addon);
    let objects = read_objects(fields, addon);
    let needs = fields.values("needs");
    let waits = fields.flag("wait", true);
    let timeout = fields.number("timeoutSeconds", 1, 86_400);
    let timeout = timeout.map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
    let application = Application {
        name: name?,
        namespace: namespace.unwrap_or_default(),
        content: content?,
        needs,
        waits,
        timeout: timeout.unwrap_or(TIMEOUT),
    };
    let objects = objects.and_then(|objects| objects_after(&application, objects));
    Some(std::iter::once(application).chain(objects).collect())
}

/// Reads what the objects of an add-on need.
fn read_objects(fields: &Fields<'_>, addon: Option<Addon>) -> Option<SiteObjects> {
    let addresses: Vec<String> = fields.values("addresses");
    let issuer = fields.section("issuer").and_then(|issuer| {
        issuer.require_all(&["certFile", "keyFile"], "give the CA of the site");
        let certificate = read_file(&issuer, "certFile");
        let key = read_file(&issuer, "keyFile");
        issuer.finish();
        Some(SiteObjects::Issuer {
            certificate: certificate?,
            key: key?,
        })
    });
    for (name, owner) in [
        ("addresses", Addon::MetalLb),
        ("issuer", Addon::CertManager),
    ] {
        if addon != Some(owner) {
            let message = format!("is only accepted with the add-on {}", owner.name());
            fields.problem(name, message, Some("remove it"));
        }
    }
    if addresses.is_empty() {
        issuer
    } else {
        Some(SiteObjects::Addresses(addresses))
    }
}

/// Returns the release with the objects of an add-on.
fn objects_after(application: &Application, objects: SiteObjects) -> Option<Application> {
    let suffix = objects.addon().properties().objects?.suffix;
    Some(Application {
        name: ReleaseName::parse(&format!("{}-{suffix}", application.name)).ok()?,
        namespace: application.namespace.clone(),
        content: ApplicationContent::AddonObjects(objects),
        needs: vec![application.name.clone()],
        waits: application.waits,
        timeout: application.timeout,
    })
}

/// Lets each application that needs an add-on need its objects, too.
fn need_objects(applications: &mut [Application]) {
    let objects = applications.iter().filter_map(|one| match &one.content {
        ApplicationContent::AddonObjects(_) => Some((one.needs.clone(), one.name.clone())),
        _ => None,
    });
    for (addon, objects) in objects.collect::<Vec<_>>() {
        for other in applications.iter_mut() {
            if other.name != objects && other.needs.iter().any(|name| addon.contains(name)) {
                other.needs.push(objects.clone());
            }
        }
    }
}

fn read_content(fields: &Fields<'_>, addon: Option<Addon>) -> Option<ApplicationContent> {
    let chart = fields.text("chart");
    let version = fields.text("version");
    let manifests: Vec<String> = fields.values("manifests");
    let values = read_values(fields);
    match (addon, chart, manifests.is_empty()) {
        (Some(kind), None, true) => Some(ApplicationContent::Addon {
            kind,
            version,
            values,
        }),
        (None, Some(name), true) => Some(ApplicationContent::Chart {
            name,
            version,
            values,
        }),
        (None, None, false) => {
            let hint = "remove it: only charts and add-ons have it";
            for name in [
                "version",
                "values",
                "valuesFiles",
                "valuesIdentity",
                "secretValues",
            ] {
                if fields.get(name).is_some() {
                    fields.problem(name, "is not accepted with manifests", Some(hint));
                }
            }
            Some(ApplicationContent::Manifests(manifests))
        }
        (None, None, true) if fields.get("addon").is_some() => None,
        _ => {
            let hint = "name an add-on, or a chart or manifests of the bundle, as `kubexm bundle list` prints them";
            fields.problem_here("expected one of addon, chart and manifests", Some(hint));
            None
        }
    }
}

fn read_values(fields: &Fields<'_>) -> ApplicationValues {
    let own = fields.get("values").map(|_| fields.json_object("values"));
    let names: Vec<String> = fields.values("valuesFiles");
    let files = names
        .iter()
        .map(|name| existing(fields, "valuesFiles", name));
    ApplicationValues {
        files: files.collect(),
        identity: secret_file(fields, "valuesIdentity"),
        own: own.map(|own| Secret(own.to_string())),
        secrets: fields.sections("secretValues", read_secret),
    }
}

fn read_secret(fields: &Fields<'_>) -> Option<SecretValue> {
    let path = fields
        .required("path")
        .and_then(|_| fields.text("path"))
        .and_then(|text| read_path(fields, &text));
    let file = secret_file(fields, "file").map(ValueSource::File);
    let variable = read_variable(fields, "env").map(ValueSource::Variable);
    if fields.get("file").is_some() == fields.get("env").is_some() {
        let hint = "`env` names an environment variable of kubexm, `file` a file on this machine";
        fields.problem_here("expected either env or file", Some(hint));
        return None;
    }
    Some(SecretValue {
        path: path?,
        source: file.or(variable)?,
    })
}

/// Splits the path of a value at its dots, besides those after a backslash.
fn read_path(fields: &Fields<'_>, text: &str) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '.' => names.push(String::new()),
            letter => {
                let escaped = (letter == '\\').then(|| letters.next()).flatten();
                names.last_mut()?.push(escaped.unwrap_or(letter));
            }
        }
    }
    if names.iter().any(String::is_empty) || text.contains(['[', ']']) {
        let hint =
            "write a\\.b for a field whose name has a dot; write a value of a list in valuesFiles";
        let message = "expected fields with dots between them, as in database.password";
        fields.problem("path", message, Some(hint));
        return None;
    }
    Some(names)
}

/// Reads the path of a file with a secret.
fn secret_file(fields: &Fields<'_>, name: &'static str) -> Option<PathBuf> {
    let path = existing(fields, name, &fields.text(name)?);
    notice_readers(fields, name, fields.get(name)?, &path);
    Some(path)
}

/// Returns the path of a file on this machine, and adds a problem if it does not exist.
fn existing(fields: &Fields<'_>, name: &'static str, text: &str) -> PathBuf {
    let path = expand_home(text);
    if !path.is_file() {
        report_missing(fields, name, &path);
    }
    path
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
