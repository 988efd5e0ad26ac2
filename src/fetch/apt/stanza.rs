//! `Packages` lists: stanzas of fields.

use std::io::Read;

use kubexm_types::Digest;

/// Maximum size of an unpacked list, in bytes.
const LARGEST_LIST: u64 = 512 * 1024 * 1024;

/// A published list. Packages borrow from it, because a release has about 70 000 and few are needed.
#[derive(Debug)]
pub struct List {
    /// The archive's address.
    base: String,
    text: String,
}

/// One package of a list.
#[derive(Debug, Clone)]
pub struct Package<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// The archive's address.
    archive: &'a str,
    /// The path of the `.deb` in the archive.
    file: &'a str,
    /// Size in bytes.
    pub size: u64,
    pub digest: Digest,
    /// `Pre-Depends` and `Depends`, each a list of alternatives.
    pub depends: Vec<Vec<Relation<'a>>>,
    /// The virtual packages that it provides, with their versions if given.
    pub provides: Vec<(&'a str, Option<&'a str>)>,
    /// Whether every host of the release has it.
    pub base: bool,
    /// The stanza as published.
    text: &'a str,
}

/// A relation `name (op version)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation<'a> {
    /// A package or a virtual package.
    pub name: &'a str,
    /// Operator (`<<`, `<=`, `=`, `>=`, `>>`) and version.
    pub version: Option<(&'a str, &'a str)>,
}

impl Package<'_> {
    /// Returns the address of the `.deb`.
    pub fn url(&self) -> String {
        format!("{}/{}", self.archive, self.file)
    }

    /// Returns the address of the archive, without a trailing slash.
    pub fn archive(&self) -> &str {
        self.archive
    }

    /// Returns the last segment of the path.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(self.name)
    }
}

impl List {
    /// Unpacks a gzip-compressed list; `base` is the archive's address.
    ///
    /// # Errors
    /// It cannot be unpacked.
    pub fn unpack(packed: &[u8], base: &str) -> Result<Self, String> {
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(packed)
            .take(LARGEST_LIST)
            .read_to_string(&mut text)
            .map_err(|error| format!("a package list cannot be read: {error}"))?;
        let base = base.to_owned();
        Ok(Self { base, text })
    }

    /// Creates a list from its text.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn from_text(text: String, base: &str) -> Self {
        let base = base.to_owned();
        Self { base, text }
    }

    /// Returns all packages in the list.
    pub fn packages(&self) -> impl Iterator<Item = Package<'_>> {
        let stanzas = self.text.split("\n\n");
        stanzas.filter_map(|stanza| package(stanza, &self.base))
    }
}

/// Parses a stanza; returns `None` if a required field is missing, because such a package cannot be
/// installed.
fn package<'a>(stanza: &'a str, archive: &'a str) -> Option<Package<'a>> {
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
        name: field("Package")?,
        version: field("Version")?,
        archive,
        file,
        size: field("Size")?.parse().ok()?,
        digest: field("SHA256")?.parse().ok()?,
        depends: depends
            .flat_map(|list| list.split(','))
            .map(alternatives)
            .collect(),
        provides: field("Provides").map(provides).unwrap_or_default(),
        base: field("Essential") == Some("yes") || field("Priority") == Some("required"),
        text: stanza.trim_matches('\n'),
    })
}

fn alternatives(text: &str) -> Vec<Relation<'_>> {
    text.split('|').filter_map(relation).collect()
}

fn relation(text: &str) -> Option<Relation<'_>> {
    let text = text.trim();
    let (name, rest) = text.split_once(['(', '[', ' ']).unwrap_or((text, ""));
    // `:any` and `:native` select an architecture; a set has only one.
    let name = name.split(':').next()?.trim();
    let constraint = rest
        .trim_start_matches('(')
        .split(')')
        .next()
        .unwrap_or_default()
        .trim();
    let version = constraint
        .split_once(' ')
        .map(|(op, version)| (op, version.trim()));
    (!name.is_empty()).then_some(Relation { name, version })
}

fn provides(text: &str) -> Vec<(&str, Option<&str>)> {
    let relations = text.split(',').filter_map(relation);
    relations
        .map(|r| (r.name, r.version.map(|(_, version)| version)))
        .collect()
}

/// Writes a `Packages` file for exactly these packages, all in one directory.
pub fn index(packages: &[&Package<'_>]) -> String {
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
