//! `spec.system`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{controller_file, hooks};
use crate::cluster::{
    DEFAULT_ETCD_DATA_DIR, FileOwner, FileSource, Resolvers, Role, SiteFile, System, Time,
};
use crate::reader::{Fields, accept};
use crate::yaml::{Node, Value};
use kubexm_types::{HostName, HostPath, Secret, UserName};

/// Directories whose files kubexm, kubeadm or the kernel writes.
const OF_OTHERS: [&str; 9] = [
    "/dev",
    "/etc/kubernetes/kubexm",
    "/etc/kubernetes/pki",
    "/etc/kubexm",
    "/proc",
    "/run",
    "/sys",
    DEFAULT_ETCD_DATA_DIR,
    "/var/lib/kubexm",
];

pub(super) fn read_system(spec: &Fields<'_>) -> System {
    let mut system = System {
        disable_swap: true,
        manage_hosts_file: true,
        install_packages: true,
        max_clock_skew_seconds: 5,
        sysctl: BTreeMap::new(),
        set_host_names: false,
        resolvers: None,
        time: None,
        time_zone: None,
        modules: Vec::new(),
        hosts: BTreeMap::new(),
        files: Vec::new(),
        hooks: Vec::new(),
    };
    if let Some(fields) = spec.section("system") {
        system.disable_swap = fields.flag("disableSwap", true);
        system.manage_hosts_file = fields.flag("manageHostsFile", true);
        system.install_packages = fields.flag("installPackages", true);
        if let Some(seconds) = fields.number("maxClockSkewSeconds", 1, 3600) {
            system.max_clock_skew_seconds = seconds.unsigned_abs();
        }
        fields.refuse("sysctlParams", "is unknown", "write sysctl");
        system.sysctl = fields.map("sysctl");
        system.set_host_names = fields.flag("setHostname", false);
        system.resolvers = read_resolvers(&fields);
        system.time = read_time(&fields);
        system.time_zone = fields.value("timezone");
        system.modules = fields.values("modules");
        system.hosts = read_hosts(&fields, system.manage_hosts_file);
        system.files = read_files(&fields);
        system.hooks = hooks::read_hooks(&fields);
        fields.finish();
    }
    system
}

/// Reads the names of further addresses.
fn read_hosts(system: &Fields<'_>, managed: bool) -> BTreeMap<IpAddr, Vec<HostName>> {
    let Some(entries) = system.section("hosts") else {
        return BTreeMap::new();
    };
    let reader = system.reader();
    if !managed {
        let hint = "remove hosts, or set manageHostsFile: true";
        let message = "kubexm does not write /etc/hosts with manageHostsFile: false";
        system.problem("hosts", message, Some(hint));
    }
    let mut hosts = BTreeMap::new();
    for (text, key, value) in entries.keyed() {
        let path = entries.path(text);
        let Ok(address) = text.parse::<IpAddr>() else {
            let hint = "write {192.0.2.5: [harbor.example]}";
            reader.problem(key, &path, "expected an IP address", Some(hint));
            continue;
        };
        let names = reader.items(value, &path);
        let names = names
            .iter()
            .filter_map(|(name, path)| reader.value(name, path));
        hosts.insert(address, names.collect());
    }
    hosts
}

/// Maximum number of name servers that a host uses (`MAXNS` in resolv.conf(5)).
const MOST_SERVERS: usize = 3;
/// Maximum number of search domains that every C library uses (`MAXDNSRCH` before glibc 2.26).
const MOST_SEARCHES: usize = 6;

fn read_resolvers(system: &Fields<'_>) -> Option<Resolvers> {
    let fields = system.section("resolvers")?;
    let reader = system.reader();
    let mut servers: Vec<IpAddr> = Vec::new();
    if let Some(node) = fields.required("servers") {
        for (item, path) in reader.items(node, &fields.path("servers")) {
            let Some(text) = reader.text(item, &path) else {
                continue;
            };
            let cannot_serve = |address: &IpAddr| {
                address.is_loopback() || address.is_unspecified() || address.is_multicast()
            };
            match text.parse::<IpAddr>() {
                Ok(address) if cannot_serve(&address) => {
                    let hint = "give the address of a name server that hosts and pods reach";
                    let message = "is not the address of another machine";
                    reader.problem(item, &path, message, Some(hint));
                }
                Ok(address) => servers.push(address),
                Err(_) => {
                    let hint = "write {servers: [192.0.2.53]}";
                    reader.problem(item, &path, "expected an IP address", Some(hint));
                }
            }
        }
        if servers.is_empty() && !fields.has_problem() {
            let hint = "name a server, or remove resolvers";
            fields.problem("servers", "is empty", Some(hint));
        }
    }
    let searches: Vec<HostName> = fields.values("searches");
    for (name, count, most) in [
        ("servers", servers.len(), MOST_SERVERS),
        ("searches", searches.len(), MOST_SEARCHES),
    ] {
        if count > most {
            let message = format!("has {count} items, and hosts use only {most}");
            fields.problem(name, message, Some("remove the others"));
        }
    }
    fields.finish();
    Some(Resolvers { servers, searches })
}

fn read_time(system: &Fields<'_>) -> Option<Time> {
    let fields = system.section("time")?;
    let time = Time {
        servers: fields.values("servers"),
        source: fields.value("source"),
    };
    if time.servers.is_empty() && time.source.is_none() && !fields.has_problem() {
        let hint = "write {servers: [ntp.example]}, or {source: node1}";
        fields.problem_here("contains neither servers nor source", Some(hint));
    }
    fields.finish();
    Some(time)
}

fn read_files(system: &Fields<'_>) -> Vec<SiteFile> {
    let mut paths = BTreeSet::new();
    system.sections("files", |fields| {
        let file = read_file(fields)?;
        if !paths.insert(file.path.clone()) {
            let message = format!("another item has the path {}", file.path);
            let hint = "give each path one item; roles of an item is a list";
            fields.problem_here(message, Some(hint));
        }
        Some(file)
    })
}

fn read_file(fields: &Fields<'_>) -> Option<SiteFile> {
    let path = fields
        .required("path")
        .and_then(|_| fields.value::<HostPath>("path"));
    let mode = fields.get("mode").map_or(Some(0o600), |node| {
        let mode = octal(node);
        if mode.is_none() {
            let hint = "write the mode in octal digits and in quotes, as in \"0640\"";
            let message = "expected 3 or 4 octal digits in quotes";
            fields.problem("mode", message, Some(hint));
        }
        mode
    });
    let owner = read_owner(fields);
    let roles = fields.choices("roles", accept(Role::NAMES));
    let roles = roles.into_iter().filter_map(Role::named).collect();
    let content = read_source(fields);
    let path = path?;
    check_path(fields, &path);
    Some(SiteFile {
        path,
        content: content?,
        mode: mode?,
        owner: owner?,
        roles,
    })
}

/// Reads the fields `source` and `content`, of which a file has one.
pub(super) fn read_source(fields: &Fields<'_>) -> Option<FileSource> {
    let (source, content) = (fields.text("source"), fields.text("content"));
    match (source, content) {
        (Some(_), None) => controller_file::read_file(fields, "source").map(FileSource::File),
        (None, Some(content)) => Some(FileSource::Content(Secret(content))),
        (source, _) => {
            let both = source.is_some();
            let message = if both {
                "contains both source and content"
            } else {
                "contains neither source nor content"
            };
            let hint = "set source to a file on this machine, or content to the text";
            if !fields.has_problem() {
                fields.problem_here(message, Some(hint));
            }
            None
        }
    }
}

/// Refuses paths at which kubexm, kubeadm or the kernel writes files.
fn check_path(fields: &Fields<'_>, path: &HostPath) {
    if let Some(dir) = OF_OTHERS.iter().find(|dir| path.is_in(dir)) {
        let message = format!("is in {dir}, whose files other programs write");
        let hint = "use a directory of your own, as in /etc/kubernetes/site/audit-policy.yaml";
        fields.problem("path", message, Some(hint));
    }
}

/// Parses a mode in octal digits. YAML reads digits without quotes as a decimal number.
fn octal(node: &Node) -> Option<u32> {
    let Value::Text(text) = &node.value else {
        return None;
    };
    let is_mode = (3..=4).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| is_mode)?;
    (mode <= 0o777).then_some(mode)
}

/// Reads `user` or `user:group`.
fn read_owner(fields: &Fields<'_>) -> Option<FileOwner> {
    if fields.get("owner").is_none() {
        let user = UserName::parse("root").ok()?;
        return Some(FileOwner { user, group: None });
    }
    let text = fields.text("owner")?;
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text.as_str(), None),
    };
    let is_plain = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        name.chars().all(plain)
    };
    let parse = |name: &str| UserName::parse(name).ok().filter(|_| is_plain(name));
    let group = group.map_or(Some(None), |group| parse(group).map(Some));
    match (parse(user), group) {
        (Some(user), Some(group)) => Some(FileOwner { user, group }),
        _ => {
            let hint = "write a user of the hosts, or user:group, as in root:etcd";
            fields.problem("owner", "expected user or user:group", Some(hint));
            None
        }
    }
}
