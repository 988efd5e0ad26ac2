//! `spec.dns`.

use crate::spec::cluster::Dns;
use crate::spec::reader::Fields;

pub(super) fn read_dns(spec: &Fields<'_>) -> Dns {
    let replicas = spec.section("dns").and_then(|fields| {
        let replicas = fields.number("replicas", 1, 100);
        if let Some(node) = fields.get("nodeLocal") {
            fields
                .reader()
                .problem(node, "spec.dns.nodeLocal", "is not supported yet", None);
        }
        fields.finish();
        replicas.and_then(|replicas| u32::try_from(replicas).ok())
    });
    Dns { replicas }
}
