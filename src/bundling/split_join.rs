//! `bundle split` and `bundle join`: the same bundle in other volumes.

use std::path::PathBuf;

use crate::{VolumeSize, WrittenBundle};
use kubexm_bundle::write::rewrite::resplit;
use kubexm_session::{BundleAccess, CommandError, Stop, background};
use kubexm_types::event::Events;

/// How to split a bundle.
#[derive(Debug, Clone)]
pub struct SplitOptions {
    /// The bundle, or any of its volumes.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// The size of the volumes.
    pub size: VolumeSize,
    /// The folder of the volumes.
    pub out: PathBuf,
}

/// How to join volumes.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// Any volume of the bundle, or the list of volumes.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// The path of the bundle.
    pub out: PathBuf,
}

/// Splits a bundle into volumes.
///
/// # Errors
/// The bundle cannot be read, or the volumes cannot be written.
pub async fn split(
    options: SplitOptions,
    events: &Events,
    stop: &Stop,
) -> Result<WrittenBundle, CommandError> {
    let bundle = options.access.open(&options.bundle)?;
    let path = options
        .out
        .join(bundle.path().file_name().unwrap_or_default());
    rewrite(bundle, path, Some(options.size), events, stop).await
}

/// Writes one file from the volumes of a bundle.
///
/// # Errors
/// A volume cannot be read, or the bundle cannot be written.
pub async fn join(
    options: JoinOptions,
    events: &Events,
    stop: &Stop,
) -> Result<WrittenBundle, CommandError> {
    let bundle = options.access.open(&options.bundle)?;
    rewrite(bundle, options.out, None, events, stop).await
}

async fn rewrite(
    bundle: kubexm_bundle::Bundle,
    path: PathBuf,
    size: Option<VolumeSize>,
    events: &Events,
    stop: &Stop,
) -> Result<WrittenBundle, CommandError> {
    let (events, stop) = (events.clone(), stop.clone());
    background::run(move || {
        let stop = || stop.is_cancelled();
        let volume = size.map(VolumeSize::bytes);
        let written = resplit(&bundle, &path, volume, &events, &stop)?;
        Ok(WrittenBundle::announce(&events, &path, &written, size))
    })
    .await
}
