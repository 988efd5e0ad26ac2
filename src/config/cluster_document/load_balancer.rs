//! `spec.highAvailability` and `spec.controlPlaneEndpoint`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;

use super::balancer_settings::read_settings;
use crate::cluster::{
    AddressHolder, ControlPlanePod, Endpoint, FORMER_LOAD_BALANCERS, HighAvailability, HostSpec,
    LoadBalancer, LocalProxy, ProxyRun, Roles,
};
use crate::reader::{Choice, Fields, accept};
use crate::yaml::Value;
use kubexm_types::HostName;

/// Returns the values of `highAvailability.type`.
pub(crate) fn types() -> Vec<&'static str> {
    let without_program = ["none", "external"];
    [
        &without_program,
        AddressHolder::NAMES,
        LocalProxy::NAMES,
        ControlPlanePod::NAMES,
    ]
    .concat()
}

/// Reads the section.
pub(super) fn read_high_availability(spec: &Fields<'_>) -> Option<HighAvailability> {
    let given = spec.get("controlPlaneEndpoint").is_some();
    // An endpoint without a type is an external load balancer.
    let default = if given {
        LoadBalancer::External
    } else {
        LoadBalancer::None
    };
    let Some(fields) = spec.section("highAvailability") else {
        return Some(HighAvailability {
            kind: default,
            ..HighAvailability::default()
        });
    };
    let types = types();
    let choice = Choice {
        former: FORMER_LOAD_BALANCERS,
        ..accept(&types)
    };
    let kind = match fields.get("type") {
        Some(_) => fields.choice("type", choice),
        None => Some("none"),
    };
    let run = read_run(&fields, kind);
    let virtual_router_id = read_router_id(&fields, kind);
    if kind == Some("external") && !given {
        let path = "spec.controlPlaneEndpoint";
        let hint = "give the address of your load balancer, as in api.example:6443";
        let message = "is missing, and highAvailability.type is external";
        fields
            .reader()
            .problem(fields.node(), path, message, Some(hint));
    }
    let settings = read_settings(&fields, kind);
    fields.finish();
    Some(HighAvailability {
        kind: balancer(kind?, run, virtual_router_id, default),
        ..settings
    })
}

/// Returns the load balancer of a type; `default` for a type without a program.
fn balancer(
    kind: &str,
    run: ProxyRun,
    virtual_router_id: Option<NonZeroU8>,
    default: LoadBalancer,
) -> LoadBalancer {
    if let Some(kind) = LocalProxy::named(kind) {
        return LoadBalancer::Local { kind, run };
    }
    if let Some(kind) = AddressHolder::named(kind) {
        return LoadBalancer::Holder {
            kind,
            run,
            virtual_router_id,
        };
    }
    let pod = ControlPlanePod::named(kind);
    pod.map_or(default, |kind| LoadBalancer::Pods { kind })
}

fn read_run(fields: &Fields<'_>, kind: Option<&str>) -> ProxyRun {
    let with_proxy = [AddressHolder::NAMES, LocalProxy::NAMES].concat();
    if kind.is_some_and(|kind| !with_proxy.contains(&kind)) {
        let message = format!("is only accepted with type: {}", with_proxy.join(" or "));
        let hint = "remove it: the programs of this type run in one way only";
        fields.problem("run", message, Some(hint));
    }
    match fields.choice("run", accept(&["systemd", "static-pod"])) {
        Some("static-pod") => ProxyRun::StaticPod,
        _ => ProxyRun::Systemd,
    }
}

fn read_router_id(fields: &Fields<'_>, kind: Option<&str>) -> Option<NonZeroU8> {
    if kind.is_some_and(|kind| !AddressHolder::NAMES.contains(&kind)) {
        let message = format!(
            "is only accepted with type: {}",
            AddressHolder::NAMES.join(" or ")
        );
        let hint = "remove it: only these types use VRRP";
        fields.problem("virtualRouterID", message, Some(hint));
    }
    let number = fields.number("virtualRouterID", 1, 255)?;
    NonZeroU8::new(u8::try_from(number).ok()?)
}

/// Returns the host of an endpoint if it is an IP address or a DNS name.
fn endpoint_host(text: &str) -> Option<String> {
    let valid = text.parse::<IpAddr>().is_ok() || HostName::parse(text).is_ok();
    valid.then(|| text.to_owned())
}

pub(super) fn read_endpoint(
    spec: &Fields<'_>,
    hosts: &[HostSpec],
    roles: &Roles,
    load_balancer: Option<&LoadBalancer>,
    api_server: u16,
) -> Option<Endpoint> {
    let reader = spec.reader();
    let first = roles
        .control_plane
        .first()
        .and_then(|name| hosts.iter().find(|h| h.name == *name));
    let local = matches!(load_balancer, Some(LoadBalancer::Local { .. }));
    let shares_hosts = roles.load_balancer.is_empty()
        || roles
            .load_balancer
            .iter()
            .any(|name| roles.control_plane.contains(name));
    let default_port = load_balancer.map_or(api_server, |kind| {
        kind.default_port(api_server, shares_hosts)
    });
    // Of the hosts' address family: a host may have no other.
    let loopback = first.map(|first| match first.internal_address() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    });
    let Some(node) = spec.get("controlPlaneEndpoint") else {
        if local {
            return Some(Endpoint {
                host: loopback?.to_string(),
                address: None,
                port: default_port,
            });
        }
        if roles.control_plane.len() > 1 {
            let hint = "give the address of your load balancer, as in api.example:6443";
            let message = "is missing: several control planes need one address";
            reader.problem(
                spec.node(),
                "spec.controlPlaneEndpoint",
                message,
                Some(hint),
            );
        }
        let address = first?.internal_address();
        return Some(Endpoint {
            host: address.to_string(),
            address: None,
            port: api_server,
        });
    };
    let path = "spec.controlPlaneEndpoint";
    if let Value::Text(text) = &node.value {
        let default = default_port.to_string();
        let (host, port) = text.rsplit_once(':').unwrap_or((text, &default));
        return match (
            port.parse::<u16>(),
            endpoint_host(host.trim_matches(['[', ']'])),
        ) {
            (Ok(port), Some(host)) => {
                let address = loopback.filter(|_| local && host.parse::<IpAddr>().is_err());
                Some(Endpoint {
                    host,
                    address,
                    port,
                })
            }
            _ => {
                let hint = "write an IP address or a name in lower case, as in api.example:6443";
                spec.problem("controlPlaneEndpoint", "expected host:port", Some(hint));
                None
            }
        };
    }
    let fields = reader.fields(node, path);
    let name = |field: &'static str| {
        let host = endpoint_host(&fields.text(field)?);
        if host.is_none() {
            let message = "expected an IP address or a DNS name in lower case, as in api.example";
            fields.problem(field, message, None);
        }
        host
    };
    let (domain, host) = (name("domain"), name("host"));
    if domain.is_some() && host.is_some() {
        let hint = "remove one of them: they have the same meaning";
        fields.problem_here("contains both domain and host", Some(hint));
    }
    let host = domain.or(host);
    let mut address: Option<IpAddr> = fields.value("address");
    let port = fields.number("port", 1, 65535);
    let port = port.unwrap_or(i64::from(default_port));
    fields.finish();
    if local && address.is_none() {
        // The name leads every host to its own proxy.
        address = loopback.filter(|_| host.as_ref().is_some_and(|h| h.parse::<IpAddr>().is_err()));
    }
    let host = host.or_else(|| address.map(|address| address.to_string()));
    if host.is_none() && !reader.has_problem_at(path) {
        let message = "expected a domain or an address";
        spec.problem("controlPlaneEndpoint", message, None);
    }
    Some(Endpoint {
        host: host?,
        address,
        port: u16::try_from(port).ok()?,
    })
}
