//! `primary.xml`: a repository's packages
//! (<https://github.com/rpm-software-management/createrepo_c>), and `filelists.xml` with the rest of their
//! files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use super::LONGEST_TEXT;
use super::evr::{Evr, Range, Sense};
use super::package::Package;
use super::relation::{Capability, Relation};
use super::repomd::is_inside;
use crate::xml::{self, Piece, Tag};
use kubexm_types::Digest;

/// Maximum number of packages of a repository.
const MOST_PACKAGES: usize = 500_000;
/// Maximum number of relations and files of a package.
const MOST_ENTRIES: usize = 200_000;

/// The list of a package that an entry belongs to.
#[derive(Clone, Copy, PartialEq)]
enum List {
    Provides,
    Requires,
    Conflicts,
    Obsoletes,
    Other,
}

/// A package while its element is parsed.
#[derive(Default)]
struct Draft {
    name: String,
    arch: String,
    evr: Option<Evr>,
    path: Option<String>,
    is_elsewhere: bool,
    size: Option<u64>,
    installed: u64,
    is_sha256: bool,
    digest: Option<Digest>,
    summary: String,
    provides: Vec<Capability>,
    requires: Vec<Relation>,
    conflicts: Vec<Relation>,
    obsoletes: Vec<Capability>,
    files: Vec<String>,
}

/// Returns all packages for an architecture (rpm's name) and for `noarch`. Packages without a required field
/// or with an address on another server are ignored, because they cannot be installed.
///
/// # Errors
/// The text is not a list of packages.
pub fn parse(source: impl BufRead, arch: &str, repository: usize) -> Result<Vec<Package>, String> {
    let mut packages = Vec::new();
    let (mut draft, mut list) = (Draft::default(), List::Other);
    xml::walk(source, LONGEST_TEXT, |piece| {
        match piece {
            Piece::Open(tag) => match tag.name() {
                "package" => draft = Draft::default(),
                "provides" => list = List::Provides,
                "requires" => list = List::Requires,
                "conflicts" => list = List::Conflicts,
                "obsoletes" => list = List::Obsoletes,
                "recommends" | "suggests" | "supplements" | "enhances" => list = List::Other,
                "entry" => draft.entry(tag, list)?,
                _ => draft.open(tag),
            },
            Piece::Close("package", _) => {
                let draft = std::mem::take(&mut draft);
                packages.extend(draft.finish(arch, repository));
                if packages.len() > MOST_PACKAGES {
                    return Err(format!("it lists more than {MOST_PACKAGES} packages"));
                }
            }
            Piece::Close(name, text) => draft.close(name, text)?,
        }
        Ok(())
    })?;
    Ok(packages)
}

impl Draft {
    fn open(&mut self, tag: &Tag<'_>) {
        let number = |name| tag.attribute(name).and_then(|text| text.parse().ok());
        match tag.name() {
            "version" => self.evr = evr(tag),
            "checksum" => self.is_sha256 = tag.attribute("type").as_deref() == Some("sha256"),
            "size" => {
                self.size = number("package");
                self.installed = number("installed").unwrap_or(0);
            }
            "location" => {
                self.path = tag.attribute("href");
                // A base address of its own, in addition to `href`.
                self.is_elsewhere = tag.attribute("base").is_some();
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "name" => self.name = text.to_owned(),
            "arch" => self.arch = text.to_owned(),
            "summary" => self.summary = text.chars().take(200).collect(),
            "checksum" if self.is_sha256 => self.digest = text.parse().ok(),
            "file" => {
                self.files.push(text.to_owned());
                return self.bounded(self.files.len());
            }
            _ => {}
        }
        Ok(())
    }

    fn entry(&mut self, tag: &Tag<'_>, list: List) -> Result<(), String> {
        let Some(name) = tag.attribute("name") else {
            return Ok(());
        };
        let range = match tag.attribute("flags").as_deref().and_then(Sense::parse) {
            Some(sense) => evr(tag).map(|evr| Range { sense, evr }),
            None => None,
        };
        let capability = Capability { name, range };
        match list {
            List::Provides => self.provides.push(capability),
            List::Obsoletes => self.obsoletes.push(capability),
            List::Requires => self.requires.push(relation(capability)?),
            List::Conflicts => self.conflicts.push(relation(capability)?),
            List::Other => {}
        }
        let lists = self.provides.len() + self.requires.len();
        self.bounded(lists + self.conflicts.len() + self.obsoletes.len())
    }

    fn bounded(&self, entries: usize) -> Result<(), String> {
        if entries > MOST_ENTRIES {
            Err(format!("its package '{}' has too many entries", self.name))
        } else {
            Ok(())
        }
    }

    fn finish(self, arch: &str, repository: usize) -> Option<Package> {
        let fits = self.arch == arch || self.arch == "noarch";
        let path = self
            .path
            .filter(|path| is_inside(path) && path.ends_with(".rpm"))?;
        // Names become arguments of commands and are written to the lock.
        let plain = |name: &str| name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let plain = plain(&self.name) && plain(path.rsplit('/').next().unwrap_or_default());
        if !fits || self.is_elsewhere || !plain || self.name.contains(char::is_whitespace) {
            return None;
        }
        let mut requires = self.requires;
        // Capabilities of rpm itself are not provided by packages.
        requires.retain(
            |relation| !matches!(relation, Relation::Plain(c) if c.name.starts_with("rpmlib(")),
        );
        Some(Package {
            name: self.name,
            arch: self.arch,
            evr: self.evr.filter(|evr| evr.release.is_some())?,
            repository,
            path,
            size: self.size?,
            installed: self.installed,
            digest: self.digest?,
            summary: self.summary,
            provides: self.provides,
            requires,
            conflicts: self.conflicts,
            obsoletes: self.obsoletes,
            files: self.files,
        })
    }
}

fn relation(capability: Capability) -> Result<Relation, String> {
    if capability.name.starts_with('(') {
        Relation::parse(&capability.name)
    } else {
        Ok(Relation::Plain(capability))
    }
}

fn evr(tag: &Tag<'_>) -> Option<Evr> {
    let epoch = tag.attribute("epoch").unwrap_or_default();
    Some(Evr {
        epoch: epoch.parse().unwrap_or(0),
        version: tag.attribute("ver")?,
        release: tag.attribute("rel").filter(|release| !release.is_empty()),
    })
}

/// Returns which packages (by digest) have the wanted files.
///
/// # Errors
/// The text is not a list of files.
pub fn owners(
    source: impl BufRead,
    wanted: &BTreeSet<String>,
) -> Result<BTreeMap<Digest, Vec<String>>, String> {
    let mut owners: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
    let mut package = None;
    xml::walk(source, LONGEST_TEXT, |piece| {
        match piece {
            Piece::Open(tag) if tag.name() == "package" => {
                package = tag.attribute("pkgid").and_then(|id| id.parse().ok());
            }
            Piece::Close("file", path) if wanted.contains(path) => {
                if let Some(digest) = package {
                    owners.entry(digest).or_default().push(path.to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(owners)
}
