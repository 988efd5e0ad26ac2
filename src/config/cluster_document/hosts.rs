//! `spec.hosts`, `spec.defaults` and `spec.roleGroups`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::controller_file::expand_home;
use super::jump_host::read_jump_hosts;
use super::password::read_password;
use crate::cluster::{DEFAULT_PORT, HostSpec, IpFamilies, Roles, Taint, Transport};
use crate::host_range;
use crate::reader::Fields;
use kubexm_types::{Arch, HostAddress, HostName, LabelKey, LabelValue, UserName};

/// The longest value of a label
/// (<https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set>).
const LONGEST_NAME: usize = 63;

const EXAMPLE_ADDRESSES: &str =
    "write an address as in 192.0.2.11, or two as in 192.0.2.11,2001:db8::11";

pub(super) fn read_hosts(spec: &Fields<'_>) -> Vec<HostSpec> {
    let reader = spec.reader();
    let defaults = spec.section("defaults");
    if let Some(defaults) = &defaults {
        check_defaults(defaults);
    }
    spec.required("hosts");
    let (mut names, mut servers) = (BTreeSet::new(), BTreeSet::new());
    let hosts = spec.sections("hosts", |fields| {
        let host = read_host(fields, defaults.as_ref())?;
        check_name(fields, &host.name);
        if !names.insert(host.name.clone()) {
            let message = format!("another host has the name '{}'", host.name);
            fields.problem_here(message, None);
        }
        let port = host.port.unwrap_or(DEFAULT_PORT);
        if !servers.insert((host.address.clone(), port)) {
            let message = format!("another host has the address '{}'", host.address);
            fields.problem_here(message, None);
        }
        Some(host)
    });
    if hosts.is_empty() && !reader.has_problem_at("spec.hosts") {
        spec.problem("hosts", "is empty", Some("name at least one host"));
    }
    if let Some(defaults) = defaults {
        defaults.finish();
    }
    hosts
}

/// Refuses names that no node can have.
fn check_name(fields: &Fields<'_>, name: &HostName) {
    let length = name.as_str().len();
    if length > LONGEST_NAME {
        let message = format!(
            "has {length} characters; a node has its name in the label kubernetes.io/hostname, which has at most {LONGEST_NAME}"
        );
        fields.problem("name", message, Some("give the host a shorter name"));
    }
    let labels = name.as_str().rsplit('.');
    if labels.into_iter().next() == Some("localhost") {
        let message = "every host has the name localhost, with the address of itself";
        fields.problem("name", message, Some("give the host a name of its own"));
    }
}

/// Reads every default once, so that its type is checked even if every host overrides it.
fn check_defaults(defaults: &Fields<'_>) {
    defaults.text("privateKeyPath");
    defaults.value::<UserName>("user");
    read_password(defaults);
    defaults.value::<Transport>("transport");
    defaults.number("port", 1, 65535);
    defaults.value::<Arch>("arch");
    read_jump_hosts(defaults);
    read_labels(defaults);
    read_taints(defaults);
}

pub(super) fn read_host(host: &Fields<'_>, defaults: Option<&Fields<'_>>) -> Option<HostSpec> {
    let reader = host.reader();
    let name = host
        .required("name")
        .and_then(|_| host.value::<HostName>("name"));
    let address = host
        .required("address")
        .and_then(|_| host.value::<HostAddress>("address"));
    let internal = match read_internal_addresses(host) {
        Some(addresses) => Some(addresses),
        None => match address
            .as_ref()
            .map(|address| address.as_str().parse::<IpAddr>())
        {
            Some(Err(_)) if host.get("internalAddress").is_none() => {
                let hint = "set internalAddress to the IP address that the cluster uses";
                let message = "is missing: the address of the host is a name";
                reader.problem(
                    host.node(),
                    &host.path("internalAddress"),
                    message,
                    Some(hint),
                );
                None
            }
            parsed => parsed.and_then(Result::ok).map(IpFamilies::from),
        },
    };
    let default_port = defaults.and_then(|d| d.number("port", 1, 65535));
    let port = host.number("port", 1, 65535).or(default_port);
    // Each default is read even if the host overrides it, so that the field counts as known.
    let default_user = defaults.and_then(|d| d.value::<UserName>("user"));
    let user = host.value("user").or(default_user);
    let user = user.map(|user| user.to_string());
    let default_password = defaults.and_then(read_password);
    let password = read_password(host).or(default_password);
    let default_key = defaults.and_then(|d| d.text("privateKeyPath"));
    let private_key_path = host.text("privateKeyPath").or(default_key);
    let private_key_path = private_key_path.map(|path| expand_home(&path));
    let default_way = defaults.and_then(read_jump_hosts);
    let jump_hosts = read_jump_hosts(host).or(default_way);
    let default_transport = defaults.and_then(|d| d.value("transport"));
    let transport = host
        .value("transport")
        .or(default_transport)
        .unwrap_or_default();
    let has_jumps = jump_hosts.as_ref().is_some_and(|way| !way.is_empty());
    if transport == Transport::OpenSsh && has_jumps {
        let message = "the transport openssh does not read jumpHost";
        let hint = "write ProxyJump in the SSH configuration of the user";
        reader.problem(host.node(), &host.path("jumpHost"), message, Some(hint));
    }
    let default_arch = defaults.and_then(|d| d.value("arch"));
    let arch = host.value("arch").or(default_arch);
    let mut labels = defaults.map(read_labels).unwrap_or_default();
    labels.extend(read_labels(host));
    let default_taints = defaults.and_then(read_taints);
    let taints = read_taints(host).or(default_taints);
    Some(HostSpec {
        name: name?,
        address: address?.to_string(),
        internal_addresses: internal?,
        transport,
        port: port.map(u16::try_from).transpose().ok()?,
        user,
        password,
        private_key_path,
        jump_hosts,
        arch,
        labels,
        taints,
    })
}

/// Reads the addresses that the cluster uses: one, or one of each address family.
fn read_internal_addresses(host: &Fields<'_>) -> Option<IpFamilies<IpAddr>> {
    let text = host.text("internalAddress")?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for part in text.split(',') {
        match part.parse() {
            Ok(address) => addresses.push(address),
            Err(error) => {
                host.problem("internalAddress", error, Some(EXAMPLE_ADDRESSES));
                return None;
            }
        }
    }
    let families = IpFamilies::from_list(&addresses);
    if families.is_none() {
        let message = "expected one address, or one of each address family";
        host.problem("internalAddress", message, Some(EXAMPLE_ADDRESSES));
    }
    families
}

fn read_labels(fields: &Fields<'_>) -> BTreeMap<LabelKey, LabelValue> {
    fields.map("labels")
}

pub(super) fn read_taints(fields: &Fields<'_>) -> Option<Vec<Taint>> {
    let reader = fields.reader();
    let node = fields.get("taints")?;
    let mut taints = Vec::new();
    for (item, path) in reader.items(node, &fields.path("taints")) {
        let Some(text) = reader.text(item, &path) else {
            continue;
        };
        let (rest, effect) = text.rsplit_once(':').unwrap_or((&text, ""));
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let hint = "write a taint as in dedicated=database:NoSchedule";
        if key.is_empty() || !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            reader.problem(item, &path, "expected key=value:effect", Some(hint));
            continue;
        }
        match (LabelKey::parse(key), LabelValue::parse(value)) {
            (Ok(key), Ok(value)) => taints.push(Taint {
                key,
                value,
                effect: effect.into(),
            }),
            (key, value) => {
                for error in key.err().into_iter().chain(value.err()) {
                    reader.problem(item, &path, error, Some(hint));
                }
            }
        }
    }
    Some(taints)
}

pub(super) fn read_roles(spec: &Fields<'_>, hosts: &[HostSpec]) -> Roles {
    let reader = spec.reader();
    let Some(groups_node) = spec.required("roleGroups") else {
        return Roles::default();
    };
    let groups = reader.fields(groups_node, "spec.roleGroups");
    let names = |group: &'static str| read_names(&groups, group, hosts);
    let mut control_plane = names("control-plane");
    control_plane.extend(names("master"));
    let worker = names("worker");
    let etcd = names("etcd");
    let registry = names("registry");
    let load_balancer = names("loadbalancer");
    if control_plane.is_empty() {
        reader.problem(
            groups_node,
            "spec.roleGroups.control-plane",
            "is empty",
            Some("name at least one host"),
        );
    }
    groups.finish();
    Roles {
        control_plane,
        worker,
        registry,
        etcd,
        load_balancer,
    }
}

/// Reads a list of host names and ranges.
pub(super) fn read_names(
    fields: &Fields<'_>,
    list: &'static str,
    hosts: &[HostSpec],
) -> Vec<HostName> {
    let reader = fields.reader();
    let Some(node) = fields.get(list) else {
        return Vec::new();
    };
    let mut names: Vec<HostName> = Vec::new();
    for (item, path) in reader.items(node, &fields.path(list)) {
        let Some(text) = reader.text(item, &path) else {
            continue;
        };
        match host_range::expand(&text) {
            Err(error) => reader.problem(item, &path, error, Some("write a range as in node[1:9]")),
            Ok(expanded) => {
                for name in expanded {
                    if !hosts.iter().any(|host| host.name == name) {
                        let message = format!("spec.hosts does not contain '{name}'");
                        reader.problem(item, &path, message, None);
                    } else if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
        }
    }
    names
}
