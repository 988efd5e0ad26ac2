//! `kubexm bundle extract`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::AccessArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_bundling::extract::{ExtractOptions, extract};
use kubexm_types::{Arch, Version};

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle extract bundle.tar.zst kubectl -o /usr/local/bin
  kubexm bundle extract bundle.tar.zst kubeadm --version 1.36.3 --arch arm64")]
pub struct Extract {
    /// The bundle
    bundle: PathBuf,
    /// Programs, components, files or packages, as `bundle list` names them
    #[arg(required = true)]
    names: Vec<String>,
    /// The folder to write to
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Only this version
    #[arg(long)]
    version: Option<Version>,
    /// Only for this architecture
    #[arg(long)]
    arch: Option<Arch>,
    #[command(flatten)]
    access: AccessArgs,
}

/// Writes each named item.
pub fn run(arguments: &Extract, output: Output) -> Result<(), Failure> {
    let files = extract(&ExtractOptions {
        bundle: arguments.bundle.clone(),
        access: arguments.access.options(),
        names: arguments.names.clone(),
        out: arguments.out.clone(),
        version: arguments.version.clone(),
        arch: arguments.arch,
    })?;
    if output == Output::Json {
        return output::document("ExtractedFiles", &output::Files { files: &files });
    }
    for file in &files {
        outln!("{} ({})", file.path.display(), file.description);
    }
    Ok(())
}
