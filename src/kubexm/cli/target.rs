//! Options of commands that write a bundle, and how its result is printed.

use std::path::{Path, PathBuf};

use clap::Args;

use super::output::outln;
use crate::report::bytes;
use kubexm_bundling::repack::{Repacked, Target};
use kubexm_bundling::{Level, Revision, VolumeSize, WrittenBundle};

/// Where and how a changed bundle is written.
#[derive(Debug, Clone, Args)]
pub struct TargetArgs {
    /// Path of the new bundle; its lock is written beside it. May be the path of the old bundle, which is
    /// replaced when the new one is complete
    #[arg(short, long, value_name = "NEW")]
    out: PathBuf,
    /// Compression level of new content, 1 (fast) to 19 (small). Unchanged groups of blobs are copied
    #[arg(long, default_value_t)]
    level: Level,
    /// Write volumes of at most this size, such as 4GiB (for FAT32)
    #[arg(long, alias = "size", value_name = "SIZE")]
    split: Option<VolumeSize>,
}

impl TargetArgs {
    /// Returns the options for a command.
    pub fn options(&self) -> Target {
        Target {
            out: self.out.clone(),
            level: self.level,
            split: self.split,
        }
    }
}

/// Prints a bundle that was written.
pub fn print(written: &WrittenBundle) {
    match &written.volumes {
        None => outln!("{}", written.path.display()),
        Some(volumes) => {
            outln!(
                "{} and on: {} volumes",
                volumes.first.display(),
                volumes.count
            );
            outln!("  list     {}", volumes.list.display());
        }
    }
    outln!("  size     {}", bytes(written.size));
    outln!("  sha256   {}", written.sha256);
}

/// Prints the lock beside a bundle.
pub fn print_lock(path: &Path) {
    outln!("  lock     {}", path.display());
}

/// Prints what the signature of a bundle states.
pub fn print_revision(revision: &Revision) {
    outln!("  created  {}", revision.created);
    outln!("  sequence {}", revision.sequence);
}

/// Prints a bundle that was repacked.
pub fn print_repacked(repacked: &Repacked) {
    print(&repacked.written);
    print_lock(&repacked.lock);
}
