//! `kubexm bundle extract`: single files out of a bundle.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::out::say;
use super::subject::Opening;
use kubexm_bundle::read::extract::{Item, find};
use kubexm_bundle::{Bundle, BundleError};
use kubexm_types::{Arch, AtomicFile, Version};

#[derive(Debug, Args)]
pub struct Extract {
    /// The bundle
    bundle: PathBuf,
    /// Programs, components, files or packages, as `bundle list` names them
    #[arg(required = true)]
    names: Vec<String>,
    /// The folder that they go to
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Only of this version
    #[arg(long)]
    version: Option<Version>,
    /// Only for this architecture
    #[arg(long)]
    arch: Option<Arch>,
    #[command(flatten)]
    opening: Opening,
}

/// Writes each named thing, once it is known to be right.
pub fn run(arguments: &Extract) -> Result<(), Failure> {
    let bundle = arguments.opening.open(&arguments.bundle)?;
    let (version, arch) = (arguments.version.as_ref(), arguments.arch);
    // All names are looked up first: a wrong one must not be told after gigabytes of others.
    let mut items = Vec::new();
    for name in &arguments.names {
        let found = find(&bundle, name, version, arch);
        let item = match found[..] {
            [item] => item,
            [] => {
                let hint = "kubexm bundle list shows what there is";
                return Err(BundleError::Missing(format!("'{name}'; {hint}")).into());
            }
            _ => return Err(several(name, &found)),
        };
        items.push(item);
    }
    for item in items {
        let path = write(&bundle, &item, &arguments.out)?;
        say!("{} ({})", path.display(), item.describe());
    }
    Ok(())
}

fn several(name: &str, found: &[Item<'_>]) -> Failure {
    let list: Vec<String> = found.iter().map(Item::describe).collect();
    Failure::configuration(format!(
        "the bundle has '{name}' more than once; choose by --version, --arch or the full file name:\n  {}",
        list.join("\n  ")
    ))
}

/// Writes one item. The file gets its name only when its content is complete and verified.
fn write(bundle: &Bundle, item: &Item<'_>, folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join(&*item.file_name());
    let failed = |source| BundleError::io(&path, source);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mode = if item.is_program() { 0o755 } else { 0o644 };
    let mut partial = AtomicFile::create(&path, mode).map_err(failed)?;
    let mut out = Watched {
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

/// Tells a disk that is full from a bundle that is damaged.
struct Watched<W> {
    inner: W,
    error: Option<io::Error>,
}

impl<W: Write> Write for Watched<W> {
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
