//! Parses what `host/facts.sh` prints.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kubexm_types::untrusted::Untrusted;
use kubexm_types::{ClusterIdentity, GlibcVersion, authority};

use super::{Cgroup, Disk, Facts, Inodes, Membership, Module, Selinux, Setting, Tool};

/// The reason why facts cannot be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum FactsError {
    /// A line without `=`, with an unknown key, or with an invalid value.
    #[error("line {number} of the facts is '{line}': {reason}")]
    Line {
        /// The number of the line, from 1.
        number: usize,
        line: String,
        reason: &'static str,
    },
    /// The clock is missing, which the script prints last.
    #[error("the facts are truncated: the clock is missing")]
    Truncated,
}

/// The largest number of characters that an error quotes of a line, which can have a whole file.
const COLUMNS: usize = 200;

/// Returns the facts, and the host's clock in seconds since 1970.
pub(super) fn facts(text: &str) -> Result<(Facts, f64), FactsError> {
    let mut facts = Facts::default();
    let mut clock = None;
    let mut open_ports = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |reason| FactsError::Line {
            number: at + 1,
            line: Untrusted::one_line(line, COLUMNS).to_string(),
            reason,
        };
        let (key, value) = line.split_once('=').ok_or_else(|| wrong("has no '='"))?;
        match key {
            "clock" => {
                let seconds = value
                    .parse()
                    .ok()
                    .filter(|seconds: &f64| seconds.is_finite());
                clock = Some(seconds.ok_or_else(|| wrong("is not a time"))?);
            }
            "firewalld_port" => open_ports.push(value.to_owned()),
            _ => fact(&mut facts, key, value).map_err(wrong)?,
        }
    }
    if let Some(ports) = &mut facts.firewalld {
        *ports = open_ports;
    }
    Ok((facts, clock.ok_or(FactsError::Truncated)?))
}

/// Stores one value.
///
/// # Errors
/// States what is wrong with the value.
fn fact(facts: &mut Facts, key: &str, value: &str) -> Result<(), &'static str> {
    match key {
        "arch" => facts.machine = value.to_owned(),
        "kernel" => facts.kernel = value.to_owned(),
        "os_id" => facts.os.id = text(value),
        "os_codename" => facts.os.codename = text(value),
        "os_version" => facts.os.version = text(value),
        "os_like" => facts.os.like = value.split_whitespace().map(str::to_owned).collect(),
        "os_name" => facts.os.name = text(value),
        "glibc" => facts.glibc = glibc(value)?,
        "machine_id" => facts.machine_id = text(value),
        "cpus" => facts.cpus = number(value)?,
        "memory" => facts.memory = number(value)?,
        "swap" => facts.swap.push(value.to_owned()),
        "cgroup" => facts.cgroup = Some(cgroup(value)?),
        "address" => {
            let address = value.split('/').next().and_then(|text| text.parse().ok());
            facts.addresses.insert(address.ok_or("is not an address")?);
        }
        "onlink" => facts
            .networks
            .push(network(value).ok_or("is not a network")?),
        "default_route" => facts.default_route = flag(value)?,
        "default_route_ipv6" => facts.default_route_ipv6 = flag(value)?,
        "nameserver" => facts.nameserver = text(value),
        "listen" => {
            let port = u16::from_str_radix(value, 16).map_err(|_| "is not a port")?;
            facts.listening.insert(port);
        }
        "module" => add(&mut facts.modules, Module::ALL, Module::name, value)?,
        "tool" => add(&mut facts.tools, Tool::ALL, Tool::name, value)?,
        "runtime" => {
            facts.runtimes.insert(value.to_owned());
        }
        "systemd" => facts.systemd = flag(value)?,
        // The ports follow in lines of their own.
        "firewalld" => facts.firewalld = flag(value)?.then(Vec::new),
        "ufw" => facts.ufw = flag(value)?,
        "networkmanager" => facts.network_manager = flag(value)?,
        "selinux" => facts.selinux = selinux(value)?,
        "container_selinux" => facts.container_selinux = flag(value)?,
        "exists" => {
            facts.existing.insert(value.to_owned());
        }
        "readonly" => {
            facts.read_only.insert(value.to_owned());
        }
        "disk" => {
            let (path, disk) = disk(value).ok_or("is not the space of a disk")?;
            facts.disks.insert(path, disk);
        }
        "inodes" => {
            let (path, inodes) = inodes(value).ok_or("is not a number of inodes")?;
            facts.inodes.insert(path, inodes);
        }
        "disk_readonly" => drop(facts.read_only_disks.insert(value.to_owned())),
        "unmounted" => {
            let (point, path) = value.split_once(' ').ok_or("is not a mount point")?;
            facts.unmounted.insert(path.to_owned(), point.to_owned());
        }
        "receipt" => facts.receipt = flag(value)?,
        "cluster" => facts.cluster = membership(&decoded(value)?),
        "authority" => {
            let (path, content) = file(value)?;
            let fingerprints = authority::fingerprints(&content);
            facts.authorities.insert(path.clone(), fingerprints);
            // The line of a CA also stands for that of its certificate. The key of service accounts is not a certificate.
            if path.ends_with(".crt") {
                facts.certificates.insert(path, content);
            }
        }
        "certificate" => {
            let (path, content) = file(value)?;
            facts.certificates.insert(path, content);
        }
        "kubeconfig" => {
            let (path, data) = file(value)?;
            facts.certificates.insert(path, of_kubeconfig(&data));
        }
        "rotated" => {
            let (path, content) = file(value)?;
            facts.rotated.insert(path, content);
        }
        "hosts_entry" => {
            let (address, name) = value.split_once(' ').ok_or("has no name")?;
            // Lines that the resolver ignores are of no interest.
            if let Ok(address) = address.parse() {
                facts.hosts_entries.push((address, name.to_owned()));
            }
        }
        "kubernetes" => facts.kubernetes = flag(value)?,
        "initialized" => facts.initialized = flag(value)?,
        "joined" => facts.joined = flag(value)?,
        "cluster_files" => facts.cluster_files = flag(value)?,
        "etcd_formed" => facts.etcd_formed = flag(value)?,
        "pods_ended" => facts.pods_ended = flag(value)?,
        "applied" => {
            let (name, value) = value.split_once(' ').ok_or("has no value")?;
            let mut known = Setting::ALL.iter();
            let setting = known.find(|setting| setting.name() == name);
            let setting = setting.copied().ok_or("the name is unknown")?;
            let values = facts.applied.entry(setting).or_default();
            values.insert(value.to_owned());
        }
        "registry_source" => drop(facts.registry_sources.insert(value.to_owned())),
        "registry_login" => facts.registry_login = Some(flag(value)?),
        _ => return Err("the key is unknown"),
    }
    Ok(())
}

/// Decodes the content of a file. Bytes that are not UTF-8 are replaced.
fn decoded(value: &str) -> Result<String, &'static str> {
    let bytes = STANDARD.decode(value).map_err(|_| "is not base64")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn membership(text: &str) -> Membership {
    match ClusterIdentity::from_json(text) {
        Ok(identity) => Membership::Cluster(identity),
        Err(_) => Membership::Damaged,
    }
}

/// Decodes the certificate of a kubeconfig. The result is empty if it is damaged: one such file must not hide all other
/// facts of the host, and no command would find it or replace it.
fn of_kubeconfig(data: &str) -> String {
    decoded(data.trim()).unwrap_or_default()
}

/// Parses a path, which can have spaces, and the content of the file.
fn file(value: &str) -> Result<(String, String), &'static str> {
    let (path, content) = value.rsplit_once(' ').ok_or("has no content")?;
    Ok((path.to_owned(), decoded(content)?))
}

/// Parses a version of glibc; `None` for an empty value.
fn glibc(value: &str) -> Result<Option<GlibcVersion>, &'static str> {
    let version = text(value)
        .map(|text| GlibcVersion::parse(&text))
        .transpose();
    version.map_err(|_| "is not a version of glibc")
}

/// Returns `None` for an empty value.
fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// Parses a number; `None` for an empty value.
fn number(value: &str) -> Result<Option<u64>, &'static str> {
    match value {
        "" => Ok(None),
        _ => value.parse().map(Some).map_err(|_| "is not a number"),
    }
}

fn flag(value: &str) -> Result<bool, &'static str> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("is neither yes nor no"),
    }
}

fn cgroup(value: &str) -> Result<Cgroup, &'static str> {
    match value {
        "v1" => Ok(Cgroup::V1),
        "v2" => Ok(Cgroup::V2),
        _ => Err("is neither v1 nor v2"),
    }
}

/// Parses `/sys/fs/selinux/enforce`. The value is empty if SELinux is disabled.
fn selinux(value: &str) -> Result<Option<Selinux>, &'static str> {
    match value {
        "" => Ok(None),
        "0" => Ok(Some(Selinux::Permissive)),
        "1" => Ok(Some(Selinux::Enforcing)),
        _ => Err("is neither 0 nor 1"),
    }
}

fn add<T: Copy + Ord>(
    set: &mut BTreeSet<T>,
    all: &[T],
    name: fn(T) -> &'static str,
    value: &str,
) -> Result<(), &'static str> {
    let found = all.iter().find(|known| name(**known) == value);
    set.insert(*found.ok_or("the name is unknown")?);
    Ok(())
}

/// Parses a network as the kernel prints it in hexadecimal numbers: `DESTINATION MASK` for IPv4 and
/// `DESTINATION/PREFIX` for IPv6.
fn network(value: &str) -> Option<IpNet> {
    let Some((network, prefix)) = value.split_once('/') else {
        return ipv4_network(value).map(IpNet::V4);
    };
    let network = u128::from_str_radix(network, 16).ok()?;
    let prefix = u8::from_str_radix(prefix, 16).ok()?;
    Some(IpNet::V6(Ipv6Net::new(network.into(), prefix).ok()?))
}

/// Parses destination and mask, which are numbers in the machine's byte order. Both supported architectures are
/// little-endian.
fn ipv4_network(value: &str) -> Option<Ipv4Net> {
    let number = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u32::swap_bytes);
    let (network, mask) = value.split_once(' ')?;
    Ipv4Net::with_netmask(number(network)?.into(), number(mask)?.into()).ok()
}

/// Parses free inodes, all inodes and path.
fn inodes(value: &str) -> Option<(String, Inodes)> {
    let mut words = value.splitn(3, ' ');
    let free = words.next()?.parse().ok()?;
    let total = words.next()?.parse().ok()?;
    Some((words.next()?.to_owned(), Inodes { free, total }))
}

/// Parses free KiB, size in KiB, mount point and path.
fn disk(value: &str) -> Option<(String, Disk)> {
    let mut words = value.splitn(4, ' ');
    let free = words.next()?.parse().ok()?;
    let size = words.next()?.parse().ok()?;
    let mount = words.next()?.to_owned();
    let path = words.next()?.to_owned();
    Some((path, Disk { free, size, mount }))
}
