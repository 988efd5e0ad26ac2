//! Scans the blobs of a bundle in one pass.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::Mutex;

use super::elf::{self, Made, OldGo, Span};
use super::layer_scanner::{self, Find, Found, Layer, MemoryBudget};
use super::os::{self, Package};
use super::{go, rust};
use kubexm_bundle::lock::FileFormat;
use kubexm_bundle::{Bundle, BundleError, Lock};
use kubexm_types::Digest;

/// Memory for databases that are read at the same time, in bytes.
const DATABASE_MEMORY: u64 = 48 << 20;
/// Maximum size of a package index, in bytes.
const LARGEST_LIST: u64 = 32 << 20;
/// Maximum size of build information in a program, in bytes.
const LARGEST_TEXT: u64 = 4 << 20;

/// The role of a blob in the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    File,
    Archive,
    Layer,
    PackageList,
}

/// The result of the scan of a blob.
#[derive(Debug)]
pub enum Content {
    /// A layer of an image.
    Layer(Layer),
    /// The programs of a file or an archive.
    Programs(Vec<Find>),
    /// The packages of a package index in the bundle.
    Packages(Vec<Package>),
}

/// The result of each blob, or the reason why it cannot be read.
pub type Contents = BTreeMap<Digest, Result<Content, String>>;

/// Scans a bundle on `threads` threads.
///
/// # Errors
/// The bundle is damaged.
pub fn scan(bundle: &Bundle, threads: usize) -> Result<Contents, BundleError> {
    let roles = roles(bundle.lock());
    let wanted: BTreeSet<Digest> = roles.keys().copied().collect();
    let memory = MemoryBudget::new(DATABASE_MEMORY);
    let seen = Mutex::new(Contents::new());
    bundle.visit_contents(&wanted, threads, &|digest, content| {
        let role = roles.get(&digest).copied().unwrap_or(Role::File);
        let result = look(role, content, &memory);
        if let Ok(mut seen) = seen.lock() {
            seen.insert(digest, result.map_err(|error| error.to_string()));
        }
    })?;
    let mut contents = seen.into_inner().unwrap_or_default();
    for (digest, content) in &mut contents {
        let finds = match content {
            Ok(Content::Layer(layer)) => &mut layer.finds,
            Ok(Content::Programs(finds)) => finds,
            _ => continue,
        };
        for find in finds {
            look_again(bundle, digest, find)?;
        }
    }
    Ok(contents)
}

/// Returns the role of every blob to scan.
fn roles(lock: &Lock) -> BTreeMap<Digest, Role> {
    let mut roles = BTreeMap::new();
    for set in &lock.packages {
        roles.insert(set.index.digest, Role::PackageList);
    }
    for file in &lock.files {
        let role = match file.format {
            FileFormat::Binary | FileFormat::Manifest => Role::File,
            FileFormat::TarGz => Role::Archive,
        };
        roles.insert(file.digest, role);
    }
    let platforms = lock.images.iter().flat_map(|image| &image.platforms);
    for platform in platforms.filter(|platform| platform.arch.is_some()) {
        let layers = platform
            .blobs
            .iter()
            .filter(|blob| is_layer(&blob.media_type));
        roles.extend(layers.map(|blob| (blob.digest, Role::Layer)));
    }
    roles
}

/// Returns whether a blob of an image is a layer of its file system.
pub fn is_layer(media_type: &str) -> bool {
    let (_, suffix) = media_type.split_once("tar").unwrap_or(("", "none"));
    matches!(suffix, "" | "+gzip" | "+zstd" | ".gzip" | ".zstd")
}

fn look(role: Role, content: &mut dyn Read, memory: &MemoryBudget) -> io::Result<Content> {
    Ok(match role {
        Role::Layer => Content::Layer(layer_scanner::layer(content, memory)?),
        Role::Archive => Content::Programs(layer_scanner::archive(content)?),
        Role::File => {
            let program = elf::look(content)?.map(|program| Find {
                path: String::new(),
                what: Found::Program(program),
            });
            Content::Programs(program.into_iter().collect())
        }
        Role::PackageList => {
            let mut text = Vec::new();
            content.take(LARGEST_LIST).read_to_end(&mut text)?;
            Content::Packages(os::dpkg(&String::from_utf8_lossy(&text)))
        }
    })
}

/// Completes a find that the first pass could not read.
fn look_again(bundle: &Bundle, blob: &Digest, find: &mut Find) -> Result<(), BundleError> {
    let path = find.path.as_str();
    match &mut find.what {
        Found::Later(database, size) => {
            let whole = Span {
                offset: 0,
                size: *size,
            };
            let bytes = spans(bundle, blob, path, &[whole])?;
            let bytes = bytes.first().map(Vec::as_slice).unwrap_or_default();
            find.what = database.read(bytes);
        }
        Found::Program(program) => match &program.made {
            Made::OldGo(old) => {
                let info = old_go(bundle, blob, path, old)?;
                program.made = info.map_or(Made::Unknown, Made::Go);
            }
            Made::Rust(span) if span.size <= LARGEST_TEXT => {
                let section = spans(bundle, blob, path, &[*span])?;
                let crates = section.first().and_then(|section| rust::crates(section));
                program.made = crates.map_or(Made::Unknown, Made::Crates);
            }
            Made::Rust(_) => program.made = Made::Unknown,
            Made::Unknown | Made::Go(_) | Made::Crates(_) => {}
        },
        Found::Packages(_) | Found::Release(_) | Found::Unreadable(_) => {}
    }
    Ok(())
}

/// Reads the build information of a program of Go before 1.18. Follows the pointers to the headers of two
/// strings, and then to the strings.
fn old_go(
    bundle: &Bundle,
    blob: &Digest,
    path: &str,
    old: &OldGo,
) -> Result<Option<go::BuildInfo>, BundleError> {
    let header = |pointer| old.find(pointer, 2 * old.width as u64);
    let headers = old.pointers.map(header);
    let [Some(version), Some(modules)] = headers else {
        return Ok(None);
    };
    let headers = spans(bundle, blob, path, &[version, modules])?;
    let texts = headers.iter().map(|header| {
        let address = elf::number(header, 0, old.width, old.big)?;
        let size = elf::number(header, old.width, old.width, old.big)?;
        old.find(address, size).filter(|_| size <= LARGEST_TEXT)
    });
    let Some(texts) = texts.collect::<Option<Vec<Span>>>() else {
        return Ok(None);
    };
    let texts = spans(bundle, blob, path, &texts)?;
    Ok(match texts.as_slice() {
        [version, modules] => go::build_info(version, modules),
        _ => None,
    })
}

/// Reads parts of a file in a layer or an archive, or of a blob. Parts after the end of the file are
/// shorter than requested.
fn spans(
    bundle: &Bundle,
    blob: &Digest,
    path: &str,
    spans: &[Span],
) -> Result<Vec<Vec<u8>>, BundleError> {
    let found = Mutex::new(vec![Vec::new(); spans.len()]);
    let take = |file: &mut dyn Read| -> io::Result<()> {
        let mut parts = cut(file, spans)?;
        if let Ok(mut found) = found.lock() {
            found.swap_with_slice(&mut parts);
        }
        Ok(())
    };
    bundle.visit_contents(&BTreeSet::from([*blob]), 1, &|_, content| {
        // The first pass reported content that cannot be read.
        let _ = if path.is_empty() {
            take(content)
        } else {
            layer_scanner::for_each_file(
                content,
                |name, file| if name == path { take(file) } else { Ok(()) },
            )
        };
    })?;
    Ok(found.into_inner().unwrap_or_default())
}

/// Reads a file and returns parts of it.
fn cut(file: &mut dyn Read, spans: &[Span]) -> io::Result<Vec<Vec<u8>>> {
    let mut parts: Vec<Vec<u8>> = vec![Vec::new(); spans.len()];
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|at| spans[*at].offset);
    let mut offset = 0;
    for at in order {
        let span = spans[at];
        // No linker writes parts that overlap.
        let Some(skip) = span.offset.checked_sub(offset) else {
            continue;
        };
        offset += io::copy(&mut file.take(skip), &mut io::sink())?;
        let read = file.take(span.size).read_to_end(&mut parts[at])?;
        offset += read as u64;
    }
    Ok(parts)
}
