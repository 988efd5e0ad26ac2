//! `kubexm bundle export`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::cli::bundle_args::BundleArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, interrupt};
use kubexm_bundling::export::{ExportOptions, Format, export};
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImageRef};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("target").required(true),
    override_usage = "kubexm bundle export <BUNDLE> --oci-layout <DIR|FILE.tar> [OPTIONS]\n       \
                      kubexm bundle export <BUNDLE> --docker-archive <FILE.tar> [OPTIONS]",
    after_long_help = "Examples:
  kubexm bundle export bundle.tar.zst --oci-layout images
  kubexm bundle export bundle.tar.zst --docker-archive images.tar --arch amd64"
)]
pub struct Export {
    #[command(flatten)]
    bundle: BundleArgs,
    /// Write an OCI image layout: a new folder, or a tar file if the name ends in .tar
    #[arg(long, value_name = "DIR|FILE.tar", group = "target")]
    oci_layout: Option<PathBuf>,
    /// Write an archive for `docker load`
    #[arg(long, value_name = "FILE.tar", group = "target", value_parser = tar_path)]
    docker_archive: Option<PathBuf>,
    /// Only this image, by its full name; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    image: Vec<ImageRef>,
    /// Only for this architecture; required for a Docker archive of a bundle with several
    #[arg(long)]
    arch: Option<Arch>,
}

/// An archive is always a file, so its name must say so.
fn tar_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(extension) if extension == "tar" => Ok(path),
        _ => Err("expected a file name that ends in .tar".to_owned()),
    }
}

/// Writes the images.
pub async fn run(arguments: Export, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let (bundle, access) = (
        arguments.bundle.path()?.to_owned(),
        arguments.bundle.access(),
    );
    let format = match (arguments.oci_layout, arguments.docker_archive) {
        (Some(path), _) => Format::OciLayout(path),
        (None, Some(path)) => Format::DockerArchive(path),
        (None, None) => {
            return Err(Failure::configuration(
                "name --oci-layout or --docker-archive",
            ));
        }
    };
    let options = ExportOptions {
        bundle,
        access,
        format,
        images: arguments.image,
        arch: arguments.arch,
    };
    let report = export(options, events, &stop).await?;
    outln!("{}: {} images", report.path.display(), report.images);
    Ok(())
}
