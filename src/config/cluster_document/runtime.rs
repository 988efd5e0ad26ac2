//! `spec.containerRuntime`.

use crate::cluster::{Runtime, RuntimeKind};
use crate::reader::Fields;

pub(super) fn read_runtime(spec: &Fields<'_>) -> Option<Runtime> {
    let Some(fields) = spec.section("containerRuntime") else {
        return Some(Runtime {
            kind: RuntimeKind::Containerd,
            extra_config: serde_json::json!({}),
        });
    };
    let kind = match fields.get("type") {
        None => Some(RuntimeKind::Containerd),
        Some(_) => fields.one_of("type", RuntimeKind::ALL, RuntimeKind::name),
    };
    let extra_config = fields.json_object("extraConfig");
    fields.finish();
    Some(Runtime {
        kind: kind?,
        extra_config,
    })
}
