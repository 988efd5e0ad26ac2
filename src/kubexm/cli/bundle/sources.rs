//! Options of `build` and `lock`: what a bundle is built from.

use std::path::PathBuf;

use clap::Args;

use crate::cli::downloads::DownloadArgs;
use kubexm_bundling::build::Sources;
use kubexm_types::Arch;

/// What a bundle is built from.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// The bundle manifest
    #[arg(short = 'f', long, alias = "file", value_name = "MANIFEST")]
    manifest: PathBuf,
    /// Check that this cluster can be installed, instead of kubexm's default clusters
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<PathBuf>,
    /// Architectures that replace those of the manifest, such as amd64,arm64; repeatable
    ///
    /// Clusters with arm64 hosts are experimental: no test has run kubexm on a real arm64 host.
    #[arg(long, value_delimiter = ',')]
    arch: Vec<Arch>,
    /// Keep digests of an existing lock that differ from what publishers state now
    ///
    /// Before a build uses a lock, it compares each kept digest with the publisher's checksum file or with
    /// the image's tag. Without this option a difference is an error.
    #[arg(long)]
    keep_locked: bool,
    /// Also trust this root of Sigstore (trusted_root.json), in addition to the built-in one; repeatable
    #[arg(long, value_name = "FILE")]
    trusted_root: Vec<PathBuf>,
    #[command(flatten)]
    downloads: DownloadArgs,
}

impl SourceArgs {
    /// Returns the options for a command.
    pub fn options(self) -> Sources {
        Sources {
            downloads: self.downloads.options(),
            manifest: self.manifest,
            cluster: self.cluster,
            architectures: self.arch,
            keep_locked: self.keep_locked,
            trusted_roots: self.trusted_root,
        }
    }
}
