//! `spec.registry`.

use crate::spec::cluster::Registry;
use crate::spec::reader::Fields;
use crate::spec::{HostName, HostPath};

pub(super) fn read_registry(spec: &Fields<'_>) -> Option<Registry> {
    let fields = spec.section("registry");
    let mut host_name = None;
    let mut port = None;
    let mut data_dir = None;
    if let Some(fields) = &fields {
        fields.choice("type", &["local"], &["harbor", "external"]);
        host_name = fields.value::<HostName>("hostName");
        port = fields.number("port", 1, 65535);
        data_dir = fields.value::<HostPath>("dataDir");
    }
    if let Some(fields) = fields {
        fields.finish();
    }
    Some(Registry {
        host_name: host_name.or_else(|| HostName::parse("registry.kubexm.internal").ok())?,
        port: u16::try_from(port.unwrap_or(5000)).ok()?,
        data_dir: data_dir.or_else(|| HostPath::parse("/var/lib/kubexm/registry").ok())?,
    })
}
