//! What differs between two locks, in words.

use std::collections::BTreeMap;
use std::fmt;

use crate::lock::Lock;

/// One thing that two locks do not have alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Only the second has it.
    Added {
        /// The thing.
        name: String,
        /// Its version or digest.
        is: String,
    },
    /// Only the first has it.
    Removed {
        /// The thing.
        name: String,
        /// Its version or digest.
        was: String,
    },
    /// Both have it, but not the same.
    Changed {
        /// The thing.
        name: String,
        /// Version or digest in the first.
        was: String,
        /// Version or digest in the second.
        is: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { name, is } => write!(f, "+ {name} {is}"),
            Self::Removed { name, was } => write!(f, "- {name} {was}"),
            Self::Changed { name, was, is } => write!(f, "~ {name} {was} -> {is}"),
        }
    }
}

/// All differences, by name. Empty where the locks name the same content.
pub fn differences(first: &Lock, second: &Lock) -> Vec<Difference> {
    let (mut before, after) = (things(first), things(second));
    let mut differences = Vec::new();
    for (name, is) in after {
        match before.remove(&name) {
            None => differences.push(Difference::Added { name, is }),
            Some(was) if was != is => differences.push(Difference::Changed { name, was, is }),
            Some(_) => {}
        }
    }
    let removed = before
        .into_iter()
        .map(|(name, was)| Difference::Removed { name, was });
    differences.extend(removed);
    differences.sort_by(|a, b| name_of(a).cmp(name_of(b)));
    differences
}

fn name_of(difference: &Difference) -> &str {
    match difference {
        Difference::Added { name, .. }
        | Difference::Removed { name, .. }
        | Difference::Changed { name, .. } => name,
    }
}

/// Everything that a lock names, with what tells its content. A component in several versions is
/// several things; else a new version is a change.
fn things(lock: &Lock) -> BTreeMap<String, String> {
    let mut things = BTreeMap::new();
    let short = |digest: &kubexm_types::Digest| digest.hex()[..12].to_owned();
    for file in &lock.files {
        let versions = lock
            .files
            .iter()
            .filter(|other| other.component == file.component && other.arch == file.arch);
        let name = match versions.count() {
            1 => format!("file {} {}", file.component, file.arch),
            _ => format!("file {} {} {}", file.component, file.version, file.arch),
        };
        let is = format!("{} ({})", file.version, short(&file.digest));
        if let Some(signature) = &file.signature {
            let is = format!("{} ({})", signature.by, short(&signature.signature.digest));
            things.insert(format!("signature of {name}"), is);
        }
        things.insert(name, is);
    }
    for image in &lock.images {
        let arches: Vec<&str> = image.platforms.iter().map(|p| p.arch.name()).collect();
        let is = format!("{} ({})", short(&image.manifest.digest), arches.join(", "));
        things.insert(format!("image {}", image.name), is);
        if let Some(signature) = &image.signature {
            let is = format!("{} ({})", signature.by, short(&signature.manifest.digest));
            things.insert(format!("signature of {}", image.name), is);
        }
    }
    for own in &lock.own {
        let digest = short(&own.digest);
        let is = match &own.version {
            Some(version) => format!("{version} ({digest})"),
            None => digest,
        };
        things.insert(format!("own {} {}", own.kind, own.name), is);
    }
    for set in &lock.packages {
        for package in &set.packages {
            let place = format!("{} {} {}", set.distribution, set.release, set.arch);
            let name = format!("package {} {place}", package.name);
            let is = format!("{} ({})", package.version, short(&package.digest));
            things.insert(name, is);
        }
    }
    things
}
