//! Finds the kinds of container runtimes and load balancers: each is one file of a folder, named as
//! cluster files name it. What there is becomes an enum for `spec` and a register for `deploy`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A folder of kinds.
struct Room {
    /// Where, in the project.
    folder: &'static str,
    /// The enum's name.
    kinds: &'static str,
    /// What a kind is, in words.
    what: &'static str,
    /// What the register gives for a kind.
    gives: &'static str,
    /// How it is made of `KIND`, the constant that each file has.
    made: fn(&str) -> String,
}

const ROOMS: [Room; 4] = [
    Room {
        folder: "src/deploy/runtime/kinds",
        kinds: "RuntimeKind",
        what: "What can run containers.",
        gives: "&'static dyn Runtime",
        made: |kind| format!("&{kind}"),
    },
    Room {
        folder: "src/deploy/load_balancer/local_proxies",
        kinds: "LocalProxy",
        what: "What can stand on every node before the API servers, for that node alone.",
        gives: "&'static dyn Proxy",
        made: |kind| format!("&{kind}"),
    },
    Room {
        folder: "src/deploy/load_balancer/address_holders",
        kinds: "AddressHolder",
        what: "What can hold the endpoint's address on one of the hosts of the role `loadbalancer`.",
        gives: "Box<dyn Balancer>",
        made: |kind| format!("Box::new({kind})"),
    },
    Room {
        folder: "src/deploy/load_balancer/control_plane_pods",
        kinds: "ControlPlanePod",
        what: "What can hold the endpoint's address as a static pod of one of the control planes.",
        gives: "Box<dyn Balancer>",
        made: |kind| format!("Box::new({kind})"),
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let project = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let mut enums = String::new();
    for room in &ROOMS {
        let folder = project.join(room.folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let names = names(&folder)?;
        enums += &kinds(room, &names)?;
        let file = out.join(format!("{}.rs", room.kinds));
        fs::write(file, register(room, &folder, &names)?)?;
    }
    fs::write(out.join("kinds.rs"), enums)?;
    Ok(())
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}

/// The names of the kinds in a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let is_named = |name: &&str| {
            let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(known)
        };
        match name.filter(is_named) {
            Some(name) if path.extension().is_some_and(|end| end == "rs") => {
                names.push(name.to_owned());
            }
            _ => {
                return Err(format!("{} is no kind, as in cri-o.rs", path.display()).into());
            }
        }
    }
    names.sort();
    Ok(names)
}

/// `cri-o` as `CriO`.
fn variant(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    words.collect()
}

/// The enum of a room's kinds.
fn kinds(room: &Room, names: &[String]) -> Result<String, std::fmt::Error> {
    let kinds = room.kinds;
    let (mut variants, mut all, mut named) = (String::new(), String::new(), String::new());
    for name in names {
        let variant = variant(name);
        writeln!(variants, "    /// `{name}`.\n    {variant},")?;
        write!(all, "Self::{variant}, ")?;
        writeln!(named, "            Self::{variant} => \"{name}\",")?;
    }
    Ok(format!(
        "/// {}\n#[derive(Debug, Clone, Copy, PartialEq, Eq)]\npub enum {kinds} {{\n{variants}}}\n\n\
         impl {kinds} {{\n    /// All of them.\n    pub const ALL: &'static [Self] = &[{all}];\n\n    \
         /// Their names, in the same order.\n    pub const NAMES: &'static [&'static str] = &{names:?};\n\n    \
         /// The one of a name.\n    pub fn named(name: &str) -> Option<Self> {{\n        \
         Self::ALL.iter().copied().find(|kind| kind.name() == name)\n    }}\n\n    \
         /// Its name in `cluster.yaml`.\n    pub fn name(self) -> &'static str {{\n        match self {{\n{named}        }}\n    }}\n}}\n\n",
        room.what
    ))
}

/// The modules of a room's kinds, and which is whose.
fn register(room: &Room, folder: &Path, names: &[String]) -> Result<String, std::fmt::Error> {
    let (mut modules, mut arms) = (String::new(), String::new());
    for name in names {
        let module = name.replace('-', "_");
        let path = folder.join(format!("{name}.rs"));
        writeln!(modules, "#[path = {path:?}]\npub(super) mod {module};")?;
        let made = (room.made)(&format!("{module}::KIND"));
        writeln!(arms, "        {}::{} => {made},", room.kinds, variant(name))?;
    }
    Ok(format!(
        "{modules}\n/// The one of a kind.\npub(super) fn of(kind: {}) -> {} {{\n    match kind {{\n{arms}    }}\n}}\n",
        room.kinds, room.gives
    ))
}
