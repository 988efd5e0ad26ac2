//! `spec.kubernetes.kubeadm.patches`.

use super::hosts::read_names;
use super::own_fields;
use crate::cluster::{HostSpec, Patch, PatchKind, PatchTarget};
use crate::reader::Fields;
use crate::yaml::Value;

pub(super) fn read_patches(kubeadm: &Fields<'_>, hosts: &[HostSpec]) -> Vec<Patch> {
    kubeadm.sections("patches", |fields| read_patch(fields, hosts))
}

fn read_patch(fields: &Fields<'_>, hosts: &[HostSpec]) -> Option<Patch> {
    let target = fields
        .required("target")
        .and_then(|_| fields.one_of("target", &PatchTarget::ALL, PatchTarget::name));
    let kind = fields.one_of("type", &PatchKind::ALL, PatchKind::name);
    let kind = kind.unwrap_or(PatchKind::Strategic);
    let hosts = read_names(fields, "hosts", hosts);
    let change = fields.required("patch")?;
    let hint = match (kind, &change.value) {
        (PatchKind::Json, Value::List(_))
        | (PatchKind::Strategic | PatchKind::Merge, Value::Map(_)) => None,
        (PatchKind::Json, _) => {
            Some("type json needs a list, as in [{op: add, path: /maxPods, value: 200}]")
        }
        _ => Some("types strategic and merge need fields, as in {maxPods: 200}"),
    };
    if let Some(hint) = hint {
        let expected = if kind == PatchKind::Json {
            "a list"
        } else {
            "fields"
        };
        let message = format!("expected {expected}, found {}", change.kind());
        fields.problem("patch", message, Some(hint));
    }
    if target == Some(PatchTarget::Kubelet) {
        own_fields::refuse_in_patch(fields);
    }
    Some(Patch {
        target: target?,
        kind,
        change: change.to_json(),
        hosts,
    })
}
