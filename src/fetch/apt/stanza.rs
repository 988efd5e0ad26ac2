//! `Packages` lists: stanzas of fields.

use std::io::Read;

use crate::spec::Digest;

/// A list that unpacks to more than this is an attack.
const LARGEST_LIST: u64 = 512 * 1024 * 1024;

/// One package of a list.
#[derive(Debug, Clone)]
pub struct Package {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Address of the `.deb`.
    pub url: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256.
    pub digest: Digest,
    /// `Pre-Depends` and `Depends`, each a list of alternatives.
    pub depends: Vec<Vec<Relation>>,
    /// Virtual packages that it stands for, with versions where given.
    pub provides: Vec<(String, Option<String>)>,
    /// Whether every host of the release has it.
    pub base: bool,
    /// The stanza as published.
    text: String,
}

/// `name (op version)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Package or virtual package.
    pub name: String,
    /// Operator (`<<`, `<=`, `=`, `>=`, `>>`) and version.
    pub version: Option<(String, String)>,
}

impl Package {
    /// Last part of the address.
    pub fn file_name(&self) -> String {
        self.url.rsplit('/').next().unwrap_or(&self.name).to_owned()
    }
}

/// Reads a gzip-compressed list; `base` is the archive's address.
pub fn parse(packed: &[u8], base: &str) -> Result<Vec<Package>, String> {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(packed)
        .take(LARGEST_LIST)
        .read_to_string(&mut text)
        .map_err(|error| format!("a package list cannot be read: {error}"))?;
    Ok(text
        .split("\n\n")
        .filter_map(|stanza| package(stanza, base))
        .collect())
}

/// A stanza without one of the fields that matter names nothing that could be installed.
fn package(stanza: &str, base: &str) -> Option<Package> {
    let field = |name: &str| {
        stanza
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .map(str::trim)
    };
    let file = field("Filename")?;
    if file.contains("..") || file.starts_with('/') {
        return None;
    }
    let depends = [field("Pre-Depends"), field("Depends")]
        .into_iter()
        .flatten();
    Some(Package {
        name: field("Package")?.to_owned(),
        version: field("Version")?.to_owned(),
        url: format!("{base}/{file}"),
        size: field("Size")?.parse().ok()?,
        digest: field("SHA256")?.parse().ok()?,
        depends: depends
            .flat_map(|list| list.split(','))
            .map(alternatives)
            .collect(),
        provides: field("Provides").map(provides).unwrap_or_default(),
        base: field("Essential") == Some("yes") || field("Priority") == Some("required"),
        text: stanza.trim_matches('\n').to_owned(),
    })
}

fn alternatives(text: &str) -> Vec<Relation> {
    text.split('|').filter_map(relation).collect()
}

fn relation(text: &str) -> Option<Relation> {
    let text = text.trim();
    let (name, rest) = text.split_once(['(', '[', ' ']).unwrap_or((text, ""));
    // `:any` and `:native` say which architecture may serve; there is only one here.
    let name = name.split(':').next()?.trim().to_owned();
    let constraint = rest
        .trim_start_matches('(')
        .split(')')
        .next()
        .unwrap_or_default()
        .trim();
    let version = constraint
        .split_once(' ')
        .map(|(op, version)| (op.to_owned(), version.trim().to_owned()));
    (!name.is_empty()).then_some(Relation { name, version })
}

fn provides(text: &str) -> Vec<(String, Option<String>)> {
    let relations = text.split(',').filter_map(relation);
    relations
        .map(|r| (r.name, r.version.map(|(_, version)| version)))
        .collect()
}

/// A `Packages` file over just these packages, all in one folder.
pub fn index(packages: &[&Package]) -> String {
    let mut out = String::new();
    for package in packages {
        for line in package.text.lines() {
            if line.starts_with("Filename: ") {
                out.push_str(&format!("Filename: ./{}", package.file_name()));
            } else {
                out.push_str(line);
            }
            out.push('\n');
        }
        out.push('\n');
    }
    out
}
