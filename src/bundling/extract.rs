//! `bundle extract`: writes single files of a bundle.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use kubexm_bundle::read::extract::{Item, find};
use kubexm_bundle::{Bundle, BundleError};
use kubexm_session::{BundleAccess, CommandError};
use kubexm_types::{Arch, AtomicFile, Message, Version};

/// What to extract.
#[derive(Debug, Clone)]
pub struct ExtractOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// Programs, components, files or packages, as `bundle list` names them.
    pub names: Vec<String>,
    /// The folder that receives them.
    pub out: PathBuf,
    /// Only this version.
    pub version: Option<Version>,
    /// Only for this architecture.
    pub arch: Option<Arch>,
}

/// A file that was extracted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Extracted {
    /// The path.
    pub path: PathBuf,
    /// Its kind, component, version and architecture.
    pub description: String,
}

/// Writes each named item after its digest was verified.
///
/// # Errors
/// A name is not in the bundle or is ambiguous, the bundle is damaged, or a file cannot be written.
pub fn extract(options: &ExtractOptions) -> Result<Vec<Extracted>, CommandError> {
    let bundle = options.access.open(&options.bundle)?;
    let (version, arch) = (options.version.as_ref(), options.arch);
    // All names are looked up first, so that a wrong name is reported before gigabytes are written.
    let mut items = Vec::new();
    for name in &options.names {
        let found = find(&bundle, name, version, arch);
        let item = match found[..] {
            [item] => item,
            [] => {
                let hint = "kubexm bundle list shows what there is";
                return Err(BundleError::Missing(format!("'{name}'; {hint}").into()).into());
            }
            _ => return Err(ambiguous(name, &found)),
        };
        items.push(item);
    }
    check_space(&items, &options.out)?;
    let written = items.iter().map(|item| {
        Ok(Extracted {
            path: write(&bundle, item, &options.out)?,
            description: item.describe(),
        })
    });
    written.collect()
}

/// Checks that the disk has space for all items. A small bundle can contain content that is a thousand times
/// larger.
fn check_space(items: &[Item<'_>], out: &Path) -> Result<(), CommandError> {
    let failed = |source| BundleError::io(out, source);
    std::fs::create_dir_all(out).map_err(failed)?;
    let needed = items.iter().map(Item::size).fold(0, u64::saturating_add);
    let free = fs4::available_space(out).map_err(failed)?;
    if needed <= free {
        return Ok(());
    }
    let reason = Message::new(format!(
        "the disk is full: the files need {needed} bytes and {free} are free; nothing was written"
    ))
    .hint("free some space, or name another folder with --out");
    Err(failed(io::Error::new(io::ErrorKind::StorageFull, reason)).into())
}

fn ambiguous(name: &str, found: &[Item<'_>]) -> CommandError {
    let list: Vec<String> = found.iter().map(Item::describe).collect();
    CommandError::configuration(format!(
        "the bundle has '{name}' more than once; choose by --version, --arch or the full file name:\n  {}",
        list.join("\n  ")
    ))
}

/// Writes one item. The file gets its name only when its content is complete and verified.
fn write(bundle: &Bundle, item: &Item<'_>, folder: &Path) -> Result<PathBuf, CommandError> {
    let path = folder.join(&*item.file_name());
    let failed = |source| BundleError::io(&path, source);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mode = if item.is_program() { 0o755 } else { 0o644 };
    let mut partial = AtomicFile::create(&path, mode).map_err(failed)?;
    let mut out = RecordsError {
        inner: &mut partial,
        error: None,
    };
    let copied = item.copy(bundle, &mut out);
    if let Some(error) = out.error {
        return Err(failed(error).into());
    }
    copied?;
    partial.commit().map_err(failed)?;
    Ok(path)
}

/// A writer that keeps its error, so that a full disk is not reported as a damaged bundle.
struct RecordsError<W> {
    inner: W,
    error: Option<io::Error>,
}

impl<W: Write> Write for RecordsError<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.inner.write(buffer).map_err(|error| {
            let kind = error.kind();
            self.error = Some(error);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
