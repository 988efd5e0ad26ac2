//! `spec.containerRuntime.registries`.

use super::controller_file::read_file;
use super::registry_login::read_login;
use crate::cluster::SiteRegistry;
use crate::reader::Fields;
use kubexm_types::ImageRef;

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
            if is_server(&text) && text != name && !mirrors.contains(&text) {
                mirrors.push(text)
            } else {
                let message = format!("'{text}' is not another server");
                let hint = "write host or host:port without https:// and path, each server once";
                reader.problem(item, &path, message, Some(hint));
            }
        }
    }
    let place = fields.get("username").unwrap_or(fields.node());
    SiteRegistry {
        name: name.to_owned(),
        mirrors,
        ca_file: read_file(fields, "caFile"),
        login: read_login(fields, Some(place)),
        insecure: fields.flag("insecure", false),
    }
}
