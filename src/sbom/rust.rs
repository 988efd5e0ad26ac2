//! Parses the list of crates that cargo-auditable writes into programs, which is compressed JSON
//! (<https://github.com/rust-secure-code/cargo-auditable/blob/master/PARSING.md>).

use std::io::Read;

use serde::Deserialize;

use super::text::clean;

/// Maximum decompressed size of a list, in bytes; the format's description recommends a limit.
const LARGEST_LIST: u64 = 8 << 20;

/// A crate in a program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Crate {
    pub name: String,
    pub version: String,
    /// `crates.io`, `git`, `local` or `registry`.
    pub source: String,
    /// `build` for build dependencies, which are not in the program.
    #[serde(default)]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct List {
    packages: Vec<Crate>,
}

/// Parses the section. Returns `None` if it is not a list of cargo-auditable.
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
