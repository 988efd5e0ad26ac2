//! `kubexm bundle export`: images of a bundle for other tools.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::out::say;
use super::subject::Opening;
use super::{Failure, interrupt};
use kubexm_bundle::export::{Run, choose, docker_archive, oci_layout, only_for};
use kubexm_bundle::{Bundle, BundleError};
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImageRef};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("target").required(true),
    override_usage = "kubexm bundle export <BUNDLE> --oci-layout <DIR|FILE.tar> [OPTIONS]\n       \
                      kubexm bundle export <BUNDLE> --docker-archive <FILE.tar> [OPTIONS]"
)]
pub struct Export {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Write an OCI image layout: a new folder, or a tar where the name ends in .tar
    #[arg(long, value_name = "DIR|FILE.tar", group = "target")]
    oci_layout: Option<PathBuf>,
    /// Write an archive for `docker load`
    #[arg(long, value_name = "FILE.tar", group = "target", value_parser = tar_path)]
    docker_archive: Option<PathBuf>,
    /// Only this image, by its full name; may be given again. All images without it
    #[arg(long, value_name = "NAME")]
    image: Vec<ImageRef>,
    /// Only for this architecture; a docker archive of a bundle that has several wants one
    #[arg(long)]
    arch: Option<Arch>,
}

/// An archive is a file, whatever else its name says.
fn tar_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(extension) if extension == "tar" => Ok(path),
        _ => Err("wants a file name that ends in .tar".to_owned()),
    }
}

/// Writes the images.
pub async fn run(arguments: Export, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let events = events.clone();
    let exported = tokio::task::spawn_blocking(move || {
        let stop = || stop.is_cancelled();
        let run = Run {
            events: &events,
            stop: &stop,
        };
        export(&arguments, run)
    });
    exported.await.map_err(Failure::bundle)?
}

fn export(arguments: &Export, run: Run<'_>) -> Result<(), Failure> {
    let bundle = arguments.opening.open_complete(&arguments.bundle)?;
    let images = choose(bundle.lock(), &arguments.image)?;
    let path = match (&arguments.oci_layout, &arguments.docker_archive) {
        (Some(path), _) => {
            let narrowed = arguments.arch.map(|arch| only_for(&images, arch));
            let narrowed = narrowed.transpose()?;
            let images = narrowed
                .as_ref()
                .map_or(images.clone(), |n| n.iter().collect());
            oci_layout(path, &bundle, &images, run).map_err(stopped)?;
            path
        }
        (None, Some(path)) => {
            let arch = arch(&bundle, arguments.arch)?;
            docker_archive(path, &bundle, &images, arch, run).map_err(stopped)?;
            path
        }
        (None, None) => {
            return Err(Failure::configuration(
                "name --oci-layout or --docker-archive",
            ));
        }
    };
    say!("{}: {} images", path.display(), images.len());
    Ok(())
}

fn stopped(error: BundleError) -> Failure {
    match error {
        BundleError::Stopped => Failure::interrupted(error),
        other => other.into(),
    }
}

/// The architecture that was asked for, or the only one.
fn arch(bundle: &Bundle, asked: Option<Arch>) -> Result<Arch, Failure> {
    match (asked, &bundle.lock().architectures[..]) {
        (Some(arch), _) => Ok(arch),
        (None, [only]) => Ok(*only),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|arch| arch.name()).collect();
            Err(Failure::configuration(format!(
                "a docker archive has one architecture, the bundle {}: choose by --arch",
                names.join(", ")
            )))
        }
    }
}
