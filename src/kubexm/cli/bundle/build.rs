//! `kubexm bundle build`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::sbom;
use super::sources::SourceArgs;
use crate::cli::output::outln;
use crate::cli::password::KeyPasswordArgs;
use crate::cli::{Failure, interrupt, target, trust};
use crate::report::bytes;
use kubexm_bundling::build::{BuildOptions, GzipStorage, build};
use kubexm_bundling::sbom::SbomFile;
use kubexm_bundling::{Level, Sequence, VolumeSize};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle build -f bundle.yaml -o bundle.tar.zst
  kubexm bundle build -f bundle.yaml --cluster cluster.yaml -o bundle.tar.zst
  kubexm bundle build -f bundle.yaml -o bundle.tar.zst --locked --sign site.key
  kubexm bundle build -f bundle.yaml -o new.tar.zst --base site.inventory.yaml")]
pub struct Build {
    #[command(flatten)]
    sources: SourceArgs,
    /// Path of the bundle; its lock is written beside it
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
    /// Fail if the bundle would differ from its lock, instead of writing a new lock
    #[arg(long)]
    locked: bool,
    /// Compression level, 1 (fast) to 19 (small)
    #[arg(long, default_value_t)]
    level: Level,
    /// How to store gzip layers and archives
    #[arg(long, alias = "layers", value_enum, default_value_t = Gzip::Decompressed)]
    gzip: Gzip,
    /// A larger bundle in less time: `--level 3 --gzip keep`
    #[arg(long, conflicts_with_all = ["level", "gzip"])]
    fast: bool,
    /// Leave out the blobs of this bundle, lock or inventory; repeatable
    #[arg(long, value_name = "FILE")]
    base: Vec<PathBuf>,
    /// Write volumes of at most this size, such as 4GiB (for FAT32)
    #[arg(long, alias = "size", value_name = "SIZE")]
    split: Option<VolumeSize>,
    /// Sign the bundle with this minisign secret key
    #[arg(long, alias = "key", value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Sequence number of the signature [default: seconds since 1970, or SOURCE_DATE_EPOCH]
    ///
    /// `install` refuses a bundle with a smaller number than the newest one of the cluster.
    #[arg(long, value_name = "N", requires = "sign")]
    sequence: Option<Sequence>,
    #[command(flatten)]
    password: KeyPasswordArgs,
    /// Also write an SBOM: `cyclonedx-json`, unless the name ends in `.spdx.json` or another format of
    /// `bundle sbom` follows
    #[arg(long, value_name = "FILE[,FORMAT]", conflicts_with = "base")]
    sbom: Option<SbomArg>,
}

/// How gzip layers and archives are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gzip {
    /// About half the size. An install compresses them again.
    #[value(alias = "open")]
    Decompressed,
    /// As published: the bundle is an OCI image layout for every tool.
    Keep,
}

/// `FILE[,FORMAT]`.
#[derive(Debug, Clone)]
struct SbomArg(SbomFile);

impl FromStr for SbomArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, format) = match text.rsplit_once(',') {
            Some((path, format)) => (path, sbom::Format::from_str(format, false)?),
            None if text.ends_with(".spdx.json") => (text, sbom::Format::SpdxJson),
            None => (text, sbom::Format::CyclonedxJson),
        };
        Ok(Self(SbomFile {
            path: path.into(),
            format: format.into(),
        }))
    }
}

/// Builds a bundle.
pub async fn run(arguments: Build, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let signer = arguments
        .sign
        .as_deref()
        .map(|key| arguments.password.signer(key, arguments.sequence))
        .transpose()?;
    let (level, gzip) = match (arguments.fast, arguments.gzip) {
        (true, _) => (Level::FAST, GzipStorage::Keep),
        (false, Gzip::Decompressed) => (arguments.level, GzipStorage::Decompressed),
        (false, Gzip::Keep) => (arguments.level, GzipStorage::Keep),
    };
    let options = BuildOptions {
        sources: arguments.sources.options(),
        out: arguments.out,
        locked: arguments.locked,
        level,
        gzip,
        base: arguments.base,
        split: arguments.split,
        signer,
        sbom: arguments.sbom.map(|sbom| sbom.0),
    };
    let report = build(options, events, &stop).await?;
    target::print(&report.written);
    outln!("  content  {}", bytes(report.content));
    target::print_lock(&report.lock);
    if let Some(revision) = &report.revision {
        target::print_revision(revision);
    }
    trust::print_summary(&report.trust);
    if let Some((path, notes)) = report.sbom {
        sbom::warn(&notes);
        outln!("{}", path.display());
    }
    Ok(())
}
