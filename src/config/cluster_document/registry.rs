//! `spec.registry`.

use super::controller_file::read_file;
use super::password::read_elsewhere;
use super::registry_login::read_login;
use crate::cluster::{ExternalRegistry, Registry};
use crate::ports;
use crate::reader::{Choice, Fields, accept};
use kubexm_types::{HostName, HostPath, ImageRef, UserName};

/// Fields of an external registry, and fields of a registry that kubexm runs.
const EXTERNAL: [&str; 6] = [
    "address",
    "project",
    "caFile",
    "username",
    "passwordFile",
    "passwordEnv",
];
const LOCAL: [&str; 4] = ["hostName", "port", "dataDir", "login"];

pub(super) fn read_registry(spec: &Fields<'_>) -> Option<Registry> {
    let mut registry = Registry {
        host_name: HostName::parse("registry.kubexm.internal").ok()?,
        port: ports::REGISTRY,
        data_dir: HostPath::parse("/var/lib/kubexm/registry").ok()?,
        login: true,
        external: None,
    };
    let Some(fields) = spec.section("registry") else {
        return Some(registry);
    };
    let kind = match fields.get("type") {
        Some(_) => {
            let choice = Choice {
                later: &["harbor"],
                ..accept(&["local", "external"])
            };
            fields.choice("type", choice)
        }
        None => Some("local"),
    };
    let external = read_external(&fields, kind == Some("external"));
    if let Some(name) = fields.value("hostName") {
        registry.host_name = name;
    }
    if let Some(port) = fields.number("port", 1, 65535) {
        registry.port = u16::try_from(port).ok()?;
    }
    if let Some(folder) = fields.value::<HostPath>("dataDir") {
        if folder.as_str().contains(['"', '\\']) {
            let message =
                "contains a character that systemd does not accept in the path of a mount";
            let hint = "use a path without quotation marks and backslashes";
            fields.problem("dataDir", message, Some(hint));
        }
        registry.data_dir = folder;
    }
    registry.login = fields.flag("login", true);
    let others: &[&'static str] = match kind {
        Some("external") => &LOCAL,
        _ => &EXTERNAL,
    };
    // With an unknown type it is not known which fields are valid.
    for name in others.iter().filter(|_| kind.is_some()) {
        let message = format!("is not accepted with type: {}", kind.unwrap_or_default());
        fields.problem(name, message, Some("remove it, or change the type"));
    }
    fields.finish();
    registry.external = external;
    kind.map(|_| registry)
}

fn read_external(fields: &Fields<'_>, is_external: bool) -> Option<ExternalRegistry> {
    let (address, project) = (fields.text("address"), fields.text("project"));
    if !is_external {
        // The types of these fields are checked even if the type of the registry does not accept the fields.
        fields.text("caFile");
        fields.value::<UserName>("username");
        read_elsewhere(fields);
        return None;
    }
    let ca_file = read_file(fields, "caFile");
    let node = fields.required("address").filter(|_| address.is_some());
    let login = read_login(fields, node);
    let address = address?;
    let project = project.unwrap_or_default();
    let place = match project.as_str() {
        "" => format!("oci://{address}/any:tag"),
        project => format!("oci://{address}/{project}/any:tag"),
    };
    if let Err(error) = ImageRef::parse_place(&place, None) {
        let hint = "write it as in address: harbor.example:443, project: mirror";
        fields.problem("address", error, Some(hint));
    }
    Some(ExternalRegistry {
        address,
        project,
        ca_file,
        login,
    })
}
