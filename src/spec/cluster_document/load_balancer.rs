//! `spec.highAvailability` and `spec.controlPlaneEndpoint`.

use std::net::IpAddr;

use crate::spec::cluster::{Endpoint, HostSpec, LoadBalancer, Roles};
use crate::spec::reader::Fields;
use crate::spec::yaml::Value;

/// kubexm's own load balancers, none of which it can install yet.
const LATER: [&str; 5] = ["kubexm-ah", "kubexm-an", "haproxy", "nginx", "kube-vip"];

pub(super) fn read_load_balancer(spec: &Fields<'_>) -> Option<LoadBalancer> {
    let given = spec.get("controlPlaneEndpoint").is_some();
    // An endpoint of the user's own is a load balancer that is there, even if it is not called so.
    let unsaid = match given {
        true => LoadBalancer::External,
        false => LoadBalancer::None,
    };
    let Some(fields) = spec.section("highAvailability") else {
        return Some(unsaid);
    };
    let kind = match fields.get("type") {
        Some(_) => fields.choice("type", &["none", "external"], &LATER),
        None => Some("none"),
    };
    if kind == Some("external") && !given {
        let path = "spec.controlPlaneEndpoint";
        let hint = "give the address of your load balancer, as in api.example:6443";
        let message = "is missing: highAvailability.type is external";
        fields
            .reader()
            .problem(fields.node(), path, message, Some(hint));
    }
    fields.finish();
    kind.map(|_| unsaid)
}

pub(super) fn read_endpoint(
    spec: &Fields<'_>,
    hosts: &[HostSpec],
    roles: &Roles,
) -> Option<Endpoint> {
    let reader = spec.reader();
    let first = roles
        .control_plane
        .first()
        .and_then(|name| hosts.iter().find(|h| h.name == *name));
    let Some(node) = spec.get("controlPlaneEndpoint") else {
        if roles.control_plane.len() > 1 {
            let hint = "give the address of your load balancer, as in api.example:6443";
            let message = "several control planes need one address for all of them";
            reader.problem(
                spec.node(),
                "spec.controlPlaneEndpoint",
                message,
                Some(hint),
            );
        }
        let address = first?.internal_address;
        return Some(Endpoint {
            host: address.to_string(),
            address: None,
            port: 6443,
        });
    };
    let path = "spec.controlPlaneEndpoint";
    if let Value::Text(text) = &node.value {
        let (host, port) = text.rsplit_once(':').unwrap_or((text, "6443"));
        return match port.parse::<u16>() {
            Ok(port) if !host.is_empty() => {
                let host = host.trim_matches(['[', ']']).to_owned();
                Some(Endpoint {
                    host,
                    address: None,
                    port,
                })
            }
            _ => {
                reader.problem(node, path, "wants host:port", None);
                None
            }
        };
    }
    let fields = reader.fields(node, path);
    let (domain, host) = (fields.text("domain"), fields.text("host"));
    if domain.is_some() && host.is_some() {
        let hint = "both mean the same: give one";
        reader.problem(node, path, "has a domain and a host", Some(hint));
    }
    let host = domain.or(host);
    let address: Option<IpAddr> = fields.value("address");
    let port = fields.number("port", 1, 65535).unwrap_or(6443);
    fields.finish();
    let host = host.or_else(|| address.map(|address| address.to_string()));
    if host.is_none() {
        reader.problem(node, path, "wants a host or an address", None);
    }
    Some(Endpoint {
        host: host?,
        address,
        port: u16::try_from(port).ok()?,
    })
}
