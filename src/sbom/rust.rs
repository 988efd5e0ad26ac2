//! What cargo-auditable writes into programs: the crates that they were built from, as compressed JSON
//! (<https://github.com/rust-secure-code/cargo-auditable/blob/master/PARSING.md>).

use std::io::Read;

use serde::Deserialize;

use super::text::clean;

/// Lists that unpack to more than this are refused, as the format's description advises.
const LARGEST_LIST: u64 = 8 << 20;

/// A crate in a program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `crates.io`, `git`, `local`, `registry`.
    pub source: String,
    /// `build` for what only ran while the program was built.
    #[serde(default)]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct List {
    packages: Vec<Crate>,
}

/// Reads the section; `None` where it is none of cargo-auditable's.
pub fn crates(section: &[u8]) -> Option<Vec<Crate>> {
    let mut text = Vec::new();
    flate2::read::ZlibDecoder::new(section)
        .take(LARGEST_LIST)
        .read_to_end(&mut text)
        .ok()?;
    let list: List = serde_json::from_slice(&text).ok()?;
    let mut crates = list.packages;
    crates.retain(|one| one.kind.as_deref() != Some("build"));
    for one in &mut crates {
        (one.name, one.version) = (clean(&one.name), clean(&one.version));
    }
    Some(crates)
}
