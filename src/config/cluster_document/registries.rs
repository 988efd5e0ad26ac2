//! `spec.containerRuntime.registries`.

use super::controller_file::read_file;
use super::password::read_elsewhere;
use super::registry::check_password_file;
use crate::cluster::{RegistryLogin, SiteRegistry};
use crate::reader::Fields;
use kubexm_types::{ImageRef, UserName};

pub(super) fn read_registries(runtime: &Fields<'_>) -> Vec<SiteRegistry> {
    let Some(fields) = runtime.section("registries") else {
        return Vec::new();
    };
    let entries = fields.keyed().filter_map(|(name, key, node)| {
        let path = fields.path(name);
        if !is_server(name) {
            let message = format!("'{name}' is not a registry");
            let hint =
                "write the name as images have it: host or host:port, as in harbor.corp:8443";
            fields.reader().problem(key, &path, message, Some(hint));
            return None;
        }
        let entry = fields.reader().fields(node, &path);
        let registry = read_registry(&entry, name);
        entry.finish();
        Some(registry)
    });
    entries.collect()
}

/// Returns whether a text is `host` or `host:port` of an image name.
fn is_server(text: &str) -> bool {
    let image = ImageRef::parse(&format!("{text}/any:tag"));
    image.is_ok_and(|image| image.registry() == text && !text.contains('/'))
}

fn read_registry(fields: &Fields<'_>, name: &str) -> SiteRegistry {
    let reader = fields.reader();
    let mut mirrors: Vec<String> = Vec::new();
    if let Some(node) = fields.get("mirrors") {
        for (item, path) in reader.items(node, &fields.path("mirrors")) {
            let Some(text) = reader.text(item, &path) else {
                continue;
            };
            match is_server(&text) && text != name && !mirrors.contains(&text) {
                true => mirrors.push(text),
                false => {
                    let message = format!("'{text}' is not another server");
                    let hint =
                        "write host or host:port without https:// and path, each server once";
                    reader.problem(item, &path, message, Some(hint));
                }
            }
        }
    }
    SiteRegistry {
        name: name.to_owned(),
        mirrors,
        ca_file: read_file(fields, "caFile"),
        login: read_login(fields),
        insecure: fields.flag("insecure", false),
    }
}

fn read_login(fields: &Fields<'_>) -> Option<RegistryLogin> {
    let user = fields.value::<UserName>("username");
    let (file, variable) = read_elsewhere(fields);
    check_password_file(fields, file.as_ref());
    let password = file.or(variable);
    if fields.get("username").is_some() != password.is_some() {
        let message = "username and passwordFile belong together";
        let hint = "give username and one of passwordFile and passwordEnv, or none of them";
        let path = fields.path("username");
        let node = fields.get("username").unwrap_or(fields.node());
        fields.reader().problem(node, &path, message, Some(hint));
    }
    let (user, password) = user.zip(password)?;
    Some(RegistryLogin {
        user: user.to_string(),
        password,
    })
}
