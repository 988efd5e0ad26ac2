//! Parses what `host/facts.sh` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kubexm_types::GlibcVersion;
use kubexm_types::untrusted::Untrusted;

use super::place::{Mount, Place};
use super::printed::{Printed, decoded};
use super::{Facts, Module, Selinux, Tool};

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
    let mut printed = Printed::default();
    let mut clock = None;
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
            "folder" => printed.folders.push(Place::new(value)),
            "path" => printed.paths.push(Place::new(value)),
            "writable" | "space" | "mount" | "exists" | "resolved" => {
                let place = printed.paths.last_mut().or(printed.folders.last_mut());
                let place = place.ok_or_else(|| wrong("belongs to no path"))?;
                of_place(place, key, value).map_err(wrong)?;
            }
            _ => fact(&mut printed, key, value).map_err(wrong)?,
        }
    }
    Ok((printed.into_facts(), clock.ok_or(FactsError::Truncated)?))
}

/// Stores one value.
///
/// # Errors
/// States what is wrong with the value.
fn fact(printed: &mut Printed, key: &str, value: &str) -> Result<(), &'static str> {
    let facts = &mut printed.facts;
    match key {
        "arch" => facts.machine = value.to_owned(),
        "kernel" => facts.kernel = value.to_owned(),
        "hostname" => printed.hostname = value.to_owned(),
        "glibc" => facts.glibc = glibc(value)?,
        "machine_id" => facts.machine_id = text(value),
        "cpus" => facts.cpus = number(value)?,
        "memory" => facts.memory = memory(value)?,
        "address" => drop(facts.addresses.insert(address(value)?)),
        "route" => route(facts, value).ok_or("is not a route")?,
        "route6" => route_ipv6(facts, value).ok_or("is not a route")?,
        "listen" => {
            let port = u16::from_str_radix(value, 16).map_err(|_| "is not a port")?;
            facts.listening.insert(port);
        }
        "module" => add(&mut facts.modules, Module::ALL, Module::name, value)?,
        "tool" => add(&mut facts.tools, Tool::ALL, Tool::name, value)?,
        "runtime" => drop(facts.runtimes.insert(value.to_owned())),
        // The ports follow in lines of their own.
        "firewalld" => facts.firewalld = flag(value)?.then(Vec::new),
        "firewalld_port" => printed.open_ports.push(value.to_owned()),
        "ufw" => facts.ufw = flag(value)?,
        "networkmanager" => facts.network_manager = flag(value)?,
        "networkd" => facts.networkd = flag(value)?,
        "selinux" => facts.selinux = selinux(value)?,
        "container_selinux" => facts.container_selinux = flag(value)?,
        "fstab" => printed.fstab.push(value.to_owned()),
        "registry_source" => drop(facts.registry_sources.insert(value.to_owned())),
        "registry_login" => facts.registry_login = Some(flag(value)?),
        "file" => add_file(&mut printed.files, value)?,
        "certificate" => add_file(&mut printed.certificates, value)?,
        "kubeconfig" => add_file(&mut printed.kubeconfigs, value)?,
        "rotated" => add_file(&mut printed.rotated, value)?,
        "present" => drop(printed.present.insert(value.to_owned())),
        "version" => {
            let (program, says) = value.split_once(' ').ok_or("has no program")?;
            let (program, says) = (program.to_owned(), says.to_owned());
            printed.versions.insert(program, says);
        }
        _ => return Err("the key is unknown"),
    }
    Ok(())
}

/// Stores a value of the path that the line before names.
fn of_place(place: &mut Place, key: &str, value: &str) -> Result<(), &'static str> {
    match key {
        "exists" => place.exists = flag(value)?,
        "writable" => place.is_writable = flag(value)?,
        "space" => place.space = Place::parse_space(value).ok_or("is not the space of a disk")?,
        "mount" if value.is_empty() => {}
        "mount" => place.mount = Some(Mount::parse(value).ok_or("is not a mount")?),
        _ => place.resolved = value.to_owned(),
    }
    Ok(())
}

/// Parses a path, which can have spaces, and the content of the file.
fn add_file(files: &mut BTreeMap<String, String>, value: &str) -> Result<(), &'static str> {
    let (path, content) = value.rsplit_once(' ').ok_or("has no content")?;
    files.insert(path.to_owned(), decoded(content)?);
    Ok(())
}

/// Parses what `getconf GNU_LIBC_VERSION` prints, as in `glibc 2.41`; `None` for another C library.
fn glibc(value: &str) -> Result<Option<GlibcVersion>, &'static str> {
    let version = value.strip_prefix("glibc ").map(GlibcVersion::parse);
    version.transpose().map_err(|_| "is not a version of glibc")
}

/// Parses a line of `/proc/meminfo`; `None` for an empty value.
fn memory(value: &str) -> Result<Option<u64>, &'static str> {
    let Some((_, size)) = value.split_once(':') else {
        return number(value);
    };
    number(size.trim().strip_suffix(" kB").ok_or("is not a size")?)
}

/// Parses an address of IPv4, or the 32 hexadecimal digits in which the kernel prints one of IPv6.
fn address(value: &str) -> Result<IpAddr, &'static str> {
    let digits = (value.len() == 32).then(|| u128::from_str_radix(value, 16));
    match digits {
        Some(Ok(digits)) => Ok(Ipv6Addr::from_bits(digits).into()),
        _ => value.parse().map_err(|_| "is not an address"),
    }
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

/// Parses destination, gateway and mask of a route of IPv4, which are numbers in the machine's byte order. Both supported
/// architectures are little-endian.
fn route(facts: &mut Facts, value: &str) -> Option<()> {
    let number = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u32::swap_bytes);
    let mut words = value.split(' ').map(number);
    let (network, gateway, mask) = (words.next()??, words.next()??, words.next()??);
    if gateway == 0 && mask != 0 {
        let network = Ipv4Net::with_netmask(network.into(), mask.into()).ok()?;
        facts.networks.push(IpNet::V4(network));
    }
    Some(())
}

/// Parses destination, length of the prefix, and gateway of a route of IPv6. Networks of links are in every host.
fn route_ipv6(facts: &mut Facts, value: &str) -> Option<()> {
    let mut words = value.split(' ');
    let mut number = || u128::from_str_radix(words.next()?, 16).ok();
    let (network, prefix, gateway) = (Ipv6Addr::from_bits(number()?), number()?, number()?);
    let prefix = u8::try_from(prefix).ok()?;
    let is_of_links = matches!(network.octets(), [0xfe | 0xff, ..]);
    if gateway == 0 && prefix != 0 && !is_of_links {
        facts
            .networks
            .push(IpNet::V6(Ipv6Net::new(network, prefix).ok()?));
    }
    Some(())
}
