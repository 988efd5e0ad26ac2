//! Scans a layer or an archive for programs, package databases and whiteouts.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use super::elf::{self, Program};
use super::os::{self, Package, Release};
use super::rpm;
use super::whiteouts::Whiteouts;

/// Maximum number of files in a layer.
const MOST_FILES: usize = 2_000_000;
/// Maximum number of finds in a layer.
const MOST_FINDS: usize = 100_000;
/// Maximum size of `os-release`, in bytes.
const LARGEST_RELEASE: u64 = 1 << 16;
/// Maximum size of a package database, in bytes.
const LARGEST_DATABASE: u64 = 80 << 20;

/// A find in a layer or an archive.
#[derive(Debug, Clone)]
pub struct Find {
    /// The path without leading slash; empty for a file that is not in an archive.
    pub path: String,
    pub what: Found,
}

/// The content of a find.
#[derive(Debug, Clone)]
pub enum Found {
    Program(Program),
    /// The packages of a database.
    Packages(Vec<Package>),
    /// A database that did not fit into the memory for databases, and its size in bytes. A second pass reads
    /// it.
    Later(Database, u64),
    /// The operating system of the packages.
    Release(Release),
    /// A file that cannot be read: the reason, as the rest of a sentence.
    Unreadable(String),
}

/// A kind of package database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// The database of dpkg, or its file for one package.
    Dpkg,
    Apk,
    Rpm,
}

impl Database {
    /// Parses the database.
    pub fn read(self, bytes: &[u8]) -> Found {
        let text = || String::from_utf8_lossy(bytes);
        match self {
            Self::Dpkg => Found::Packages(os::dpkg(&text())),
            Self::Apk => Found::Packages(os::apk(&text())),
            Self::Rpm => match rpm::packages(bytes) {
                Ok(packages) => Found::Packages(packages),
                Err(reason) => Found::Unreadable(reason),
            },
        }
    }
}

/// The role of a file, by its path.
enum Role {
    Database(Database),
    Release,
    /// The write-ahead log of the rpm database.
    Unmerged,
    Other,
}

fn role(path: &str) -> Role {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let rpm = matches!(
        folder,
        "var/lib/rpm" | "usr/lib/sysimage/rpm" | "usr/share/rpm"
    );
    match (folder, name) {
        ("var/lib/dpkg", "status") => Role::Database(Database::Dpkg),
        ("var/lib/dpkg/status.d", _) if !name.ends_with(".md5sums") => {
            Role::Database(Database::Dpkg)
        }
        ("lib/apk/db" | "usr/lib/apk/db", "installed") => Role::Database(Database::Apk),
        (_, "rpmdb.sqlite" | "Packages.db" | "Packages") if rpm => Role::Database(Database::Rpm),
        (_, "rpmdb.sqlite-wal") if rpm => Role::Unmerged,
        ("etc" | "usr/lib", "os-release") => Role::Release,
        _ => Role::Other,
    }
}

/// The memory for databases that threads read at the same time.
#[derive(Debug)]
pub struct MemoryBudget(AtomicU64);

impl MemoryBudget {
    /// Creates a budget in bytes.
    pub fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Reserves bytes. Returns `false` if there are not enough.
    fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The result of the scan of a layer.
#[derive(Debug, Default)]
pub struct Layer {
    /// The finds, in the order of the tar.
    pub finds: Vec<Find>,
    /// The files of lower layers that this layer hides.
    pub whiteouts: Whiteouts,
}

/// Scans the tar of a layer.
///
/// # Errors
/// The tar cannot be read to its end, or it exceeds a limit.
pub fn layer(content: impl Read, memory: &MemoryBudget) -> io::Result<Layer> {
    let mut layer = Layer::default();
    let mut files = 0;
    for_each_file(content, |path, file| {
        files += 1;
        if files > MOST_FILES || layer.finds.len() > MOST_FINDS {
            return Err(io::Error::other("it has more files than a layer can have"));
        }
        layer
            .whiteouts
            .add(path, file.header().entry_type().is_dir());
        if !file.header().entry_type().is_file() {
            return Ok(());
        }
        let what = match role(path) {
            Role::Database(kind) => Some(database(kind, file, memory)?),
            Role::Release => release(file)?,
            Role::Unmerged if file.size() > 0 => Some(Found::Unreadable(
                "contains changes that rpm did not merge into its database; kubexm does not read them"
                    .to_owned(),
            )),
            Role::Unmerged => None,
            Role::Other => elf::look(file)?.map(Found::Program),
        };
        // A later file with the same path replaces an earlier one.
        layer.finds.extend(what.map(|what| Find {
            path: path.to_owned(),
            what,
        }));
        Ok(())
    })?;
    layer.whiteouts.seal();
    Ok(layer)
}

/// Scans the tar of an archive for programs.
///
/// # Errors
/// The tar cannot be read to its end.
pub fn archive(content: impl Read) -> io::Result<Vec<Find>> {
    let mut finds = Vec::new();
    for_each_file(content, |path, file| {
        if file.header().entry_type().is_file()
            && finds.len() < MOST_FINDS
            && let Some(program) = elf::look(file)?
        {
            finds.push(Find {
                path: path.to_owned(),
                what: Found::Program(program),
            });
        }
        Ok(())
    })?;
    Ok(finds)
}

/// Calls `take` for every entry of a tar, with a normalized path. Skips paths with `..`.
pub fn for_each_file<R: Read>(
    content: R,
    mut take: impl FnMut(&str, &mut tar::Entry<'_, R>) -> io::Result<()>,
) -> io::Result<()> {
    let mut archive = tar::Archive::new(content);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        if !parts.contains(&"..") {
            take(&parts.join("/"), &mut entry)?;
        }
    }
    Ok(())
}

fn database<R: Read>(
    kind: Database,
    file: &mut tar::Entry<'_, R>,
    memory: &MemoryBudget,
) -> io::Result<Found> {
    let size = file.size();
    if size > LARGEST_DATABASE {
        return Ok(Found::Unreadable(format!(
            "has {size} bytes, more than kubexm reads of a package database"
        )));
    }
    if !memory.take(size) {
        return Ok(Found::Later(kind, size));
    }
    let mut bytes = Vec::new();
    let read = file.read_to_end(&mut bytes);
    let found = kind.read(&bytes);
    drop(bytes);
    memory.give_back(size);
    read.map(|_| found)
}

fn release<R: Read>(file: &mut tar::Entry<'_, R>) -> io::Result<Option<Found>> {
    let mut bytes = Vec::new();
    file.take(LARGEST_RELEASE).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Release::parse(&text).map(Found::Release))
}
