//! `bundle export`: writes images of a bundle for other tools.

use std::path::{Path, PathBuf};

use kubexm_bundle::export::{Run, choose, docker_archive, oci_layout, only_for};
use kubexm_bundle::{Bundle, BundleError};
use kubexm_session::{BundleAccess, CommandError, Stop, background};
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImageRef, Message};

/// The format of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// An OCI image layout: a new folder, or a tar file if the name ends in `.tar`.
    OciLayout(PathBuf),
    /// A tar file for `docker load`.
    DockerArchive(PathBuf),
}

/// What to export.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// The format and the path.
    pub format: Format,
    /// The images; empty for all.
    pub images: Vec<ImageRef>,
    /// Only for this architecture. A Docker archive contains exactly one.
    pub arch: Option<Arch>,
}

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportReport {
    /// The file or folder.
    pub path: PathBuf,
    /// The number of images.
    pub images: usize,
}

/// Writes the images.
///
/// # Errors
/// The bundle cannot be read, does not contain an image, or the files cannot be written.
#[tracing::instrument(skip_all, fields(bundle = %options.bundle.display()))]
pub async fn export(
    options: ExportOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ExportReport, CommandError> {
    let (events, stop) = (events.clone(), stop.clone());
    background::run(move || {
        let stop = || stop.is_cancelled();
        let run = Run {
            events: &events,
            stop: &stop,
        };
        write(&options, run)
    })
    .await
}

fn write(options: &ExportOptions, run: Run<'_>) -> Result<ExportReport, CommandError> {
    let bundle = options.access.open_complete(&options.bundle)?;
    let mut images = choose(bundle.lock(), &options.images)?;
    let path: &Path = match &options.format {
        Format::OciLayout(path) => {
            let narrowed = options.arch.map(|arch| only_for(&images, arch));
            let narrowed = narrowed.transpose()?;
            let images = narrowed
                .as_ref()
                .map_or(images.clone(), |n| n.iter().collect());
            oci_layout(path, &bundle, &images, run).map_err(stopped)?;
            path
        }
        Format::DockerArchive(path) => {
            let arch = single_arch(&bundle, options.arch)?;
            if options.images.is_empty() {
                images.retain(|image| !image.is_artifact());
            }
            docker_archive(path, &bundle, &images, arch, run).map_err(stopped)?;
            path
        }
    };
    Ok(ExportReport {
        path: path.to_owned(),
        images: images.len(),
    })
}

/// An export keeps no downloads, so it does not use the hint of the general conversion.
fn stopped(error: BundleError) -> CommandError {
    match error {
        BundleError::Stopped => CommandError::interrupted(Message::from(&error)),
        other => other.into(),
    }
}

/// Returns the given architecture, or the only one of the bundle.
fn single_arch(bundle: &Bundle, given: Option<Arch>) -> Result<Arch, CommandError> {
    match (given, &bundle.lock().architectures[..]) {
        (Some(arch), _) => Ok(arch),
        (None, [only]) => Ok(*only),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|arch| arch.name()).collect();
            Err(CommandError::configuration(format!(
                "a docker archive has one architecture, the bundle {}: choose by --arch",
                names.join(", ")
            )))
        }
    }
}
