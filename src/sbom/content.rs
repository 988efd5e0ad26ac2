//! What is inside a layer or an archive: programs, package databases, and what hides files of the
//! layers below.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use super::cover::Cover;
use super::elf::{self, Program};
use super::os::{self, Package, Release};
use super::rpm;

/// Files that one layer may have.
const MOST_FILES: usize = 2_000_000;
/// Things of interest that one layer may have.
const MOST_FINDS: usize = 100_000;
/// No `os-release` is longer.
const LARGEST_RELEASE: u64 = 1 << 16;
/// A database of packages larger than this is not read.
const LARGEST_DATABASE: u64 = 80 << 20;

/// Something of interest in a layer or an archive.
#[derive(Debug, Clone)]
pub struct Find {
    /// Where, without leading slash; empty for a file that is no archive.
    pub path: String,
    /// What.
    pub what: Found,
}

/// What was found.
#[derive(Debug, Clone)]
pub enum Found {
    /// A program.
    Program(Program),
    /// A database of packages.
    Packages(Vec<Package>),
    /// A database of so many bytes for which there was no room beside others: it takes another look.
    Later(Database, u64),
    /// The system that the packages are of.
    Release(Release),
    /// Something that cannot be read: what is wrong with it, as the rest of a sentence.
    Unreadable(String),
}

/// A kind of package database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// dpkg's, whole or one package of it.
    Dpkg,
    /// apk's.
    Apk,
    /// rpm's.
    Rpm,
}

impl Database {
    /// Reads the database.
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

/// What a file is to us, by its path.
enum Role {
    Database(Database),
    Release,
    /// Changes that are not in rpm's database yet.
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

/// Memory for databases that are read side by side.
#[derive(Debug)]
pub struct Room(AtomicU64);

impl Room {
    /// So many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes bytes, if there are so many.
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

/// A layer, looked through.
#[derive(Debug, Default)]
pub struct Layer {
    /// What is in it, in its order.
    pub finds: Vec<Find>,
    /// What it hides of the layers below.
    pub cover: Cover,
}

/// Looks through the tar of a layer.
///
/// # Errors
/// It cannot be read to its end.
pub fn layer(content: impl Read, room: &Room) -> io::Result<Layer> {
    let mut layer = Layer::default();
    let mut files = 0;
    for_each_file(content, |path, file| {
        files += 1;
        if files > MOST_FILES || layer.finds.len() > MOST_FINDS {
            return Err(io::Error::other("it has more files than a layer can have"));
        }
        layer.cover.add(path, file.header().entry_type().is_dir());
        if !file.header().entry_type().is_file() {
            return Ok(());
        }
        let what = match role(path) {
            Role::Database(kind) => Some(database(kind, file, room)?),
            Role::Release => release(file)?,
            Role::Unmerged if file.size() > 0 => Some(Found::Unreadable(
                "holds changes that rpm has not taken over; they were not read".to_owned(),
            )),
            Role::Unmerged => None,
            Role::Other => elf::look(file)?.map(Found::Program),
        };
        // A later file of the same path replaces the one before.
        layer.finds.extend(what.map(|what| Find {
            path: path.to_owned(),
            what,
        }));
        Ok(())
    })?;
    layer.cover.seal();
    Ok(layer)
}

/// Looks for programs in the tar of an archive.
///
/// # Errors
/// It cannot be read to its end.
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

/// Hands every entry of a tar to `take`, under a path that leads nowhere else.
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
    room: &Room,
) -> io::Result<Found> {
    let size = file.size();
    if size > LARGEST_DATABASE {
        return Ok(Found::Unreadable(format!(
            "has {size} bytes, more than a database of packages needs"
        )));
    }
    if !room.take(size) {
        return Ok(Found::Later(kind, size));
    }
    let mut bytes = Vec::new();
    let read = file.read_to_end(&mut bytes);
    let found = kind.read(&bytes);
    drop(bytes);
    room.give_back(size);
    read.map(|_| found)
}

fn release<R: Read>(file: &mut tar::Entry<'_, R>) -> io::Result<Option<Found>> {
    let mut bytes = Vec::new();
    file.take(LARGEST_RELEASE).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Release::parse(&text).map(Found::Release))
}
