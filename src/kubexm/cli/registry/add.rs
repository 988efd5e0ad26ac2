//! `kubexm registry add`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::change::{ClusterArgs, print};
use crate::cli::bundle_args::AccessArgs;
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_operate::registry::{self, AddOptions};
use kubexm_types::ImageRef;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm registry add [IMAGE]... -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm registry add -f c.yaml --bundle apps.tar.zst --trust site.pub --dry-run
  kubexm registry add -f c.yaml --bundle apps.tar.zst --trust site.pub
  kubexm registry add example.com/app:v2 -f c.yaml --bundle b.zst --unsigned"
)]
pub struct Add {
    /// The images; without one, all of the bundle
    #[arg(value_name = "IMAGE", value_parser = image)]
    images: Vec<ImageRef>,
    #[command(flatten)]
    given: AddArgs,
}

/// The bundle of a command that brings its content to a running cluster, and the cluster.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The bundle; the base bundles of an incremental bundle come before it
    #[arg(long, value_name = "BUNDLE", required = true)]
    bundle: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Go on although no key verifies the signature of the bundle
    ///
    /// Pods run the images of the bundle. Without a key (--trust, or spec.bundle.trust in the cluster file) this option is
    /// required.
    #[arg(long, conflicts_with = "trust")]
    unsigned: bool,
    /// Accept a bundle that is older than the one of its name that the cluster was installed from
    #[arg(long)]
    allow_older: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl AddArgs {
    /// Returns the options that add these images, or all of the bundle without one.
    pub fn options(&self, images: &[ImageRef], applications: bool) -> Result<AddOptions, Failure> {
        Ok(AddOptions {
            source: self.cluster.source(&self.bundle, &self.access),
            connection: self.cluster.connection.options()?,
            unsigned: self.unsigned,
            allow_older: self.allow_older,
            images: images.to_vec(),
            dry_run: self.dry_run,
            applications,
        })
    }
}

/// Parses an image. Who passes a bundle in its place learns the option for it.
fn image(text: &str) -> Result<ImageRef, String> {
    ImageRef::parse(text).map_err(|error| {
        if Path::new(text).is_file() {
            "it is a file; pass a bundle with --bundle".to_owned()
        } else {
            error.to_string()
        }
    })
}

/// Adds the images.
pub async fn run(arguments: &Add, output: Output, events: &Events) -> Result<(), Failure> {
    let options = arguments.given.options(&arguments.images, false)?;
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let report = registry::add(&options, events, &stop).await?;
    print(&report, output, "the registries have the images");
    Ok(())
}
