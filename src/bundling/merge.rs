//! `bundle merge`: one complete bundle from an incremental bundle and its base bundles.

use std::path::PathBuf;

use crate::{VolumeSize, WrittenBundle, lock_file};
use kubexm_bundle::{Level, PackOptions, Signed};
use kubexm_session::{BundleAccess, CommandError, Stop, background, threads};
use kubexm_types::event::Events;

/// What to merge.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// The base bundles, and last the incremental bundle.
    pub bundles: Vec<PathBuf>,
    /// How they are opened.
    pub access: BundleAccess,
    /// The path of the complete bundle.
    pub out: PathBuf,
    /// The compression level.
    pub level: Level,
    /// The size of volumes; `None` for a single file.
    pub split: Option<VolumeSize>,
}

/// Writes the complete bundle. A signature of the incremental bundle stays valid.
///
/// # Errors
/// A bundle cannot be read, the bundles together do not contain every blob, or the complete bundle cannot
/// be written.
#[tracing::instrument(skip_all, fields(out = %options.out.display()))]
pub async fn merge(
    options: MergeOptions,
    events: &Events,
    stop: &Stop,
) -> Result<WrittenBundle, CommandError> {
    kubexm_bundle::check_folder(&options.out)?;
    let merged = options.access.open_with_bases(&options.bundles)?;
    let (events, stop) = (events.clone(), stop.clone());
    background::run(move || {
        let stop = || stop.is_cancelled();
        events.phase("pack");
        let (lock, path) = (merged.lock(), &options.out);
        let gzip = kubexm_bundle::analyze_gzip(lock, &merged, &merged, 1, &events, &|| false)?;
        let storage = kubexm_bundle::arrange(lock, &gzip);
        let packing = PackOptions {
            volume: options.split.map(VolumeSize::bytes),
            signed: Signed::As(merged.bundle().documents()),
            ..PackOptions::new(options.level, threads() as u32)
        };
        let written =
            kubexm_bundle::write_until(path, lock, &storage, &merged, packing, &events, &stop)?;
        lock_file::write(&lock_file::beside(path), lock)?;
        Ok(WrittenBundle::announce(
            &events,
            path,
            &written,
            options.split,
        ))
    })
    .await
}
