//! `kubexm bundle add`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::BundleArgs;
use crate::cli::downloads::DownloadArgs;
use crate::cli::output::outln;
use crate::cli::target::{TargetArgs, print_repacked};
use crate::cli::{Failure, interrupt};
use kubexm_bundling::add::{AddOptions, Added, ImageUse, add};
use kubexm_types::ImageRef;
use kubexm_types::artifact::{ArtifactKind, ArtifactLocation, ArtifactSource};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle add bundle.tar.zst --image ghcr.io/acme/app:1.0 -o new.tar.zst
  kubexm bundle add bundle.tar.zst --chart app-1.0.0.tgz -o new.tar.zst
  kubexm bundle add bundle.tar.zst --file motd=./motd.txt -o bundle.tar.zst")]
pub struct Add {
    #[command(flatten)]
    bundle: BundleArgs,
    /// An image by its full name, such as docker.io/library/nginx:1.29; repeatable
    #[arg(long, value_name = "NAME")]
    image: Vec<ImageRef>,
    /// An artifact in an OCI registry that is not an image, such as a policy or a model; repeatable
    #[arg(long, value_name = "NAME")]
    artifact: Vec<ImageRef>,
    /// A file, with its name in the bundle; repeatable
    #[arg(long, value_name = "NAME=PATH|URL", value_parser = named_file)]
    file: Vec<ArtifactSource>,
    /// A packed Helm chart; an address may be oci://registry/chart:version; repeatable
    #[arg(long, value_name = "PATH|URL")]
    chart: Vec<ArtifactLocation>,
    /// Values to render the charts with, to find their images
    #[arg(long, value_name = "FILE", requires = "chart")]
    values: Vec<PathBuf>,
    /// Kubernetes manifests, or the directory of a kustomization; repeatable
    #[arg(long, value_name = "PATH|URL")]
    manifest: Vec<ArtifactLocation>,
    /// Only report the images that pods of charts and manifests run, and do not add them
    #[arg(long)]
    no_images: bool,
    /// Also trust this root of Sigstore (trusted_root.json), in addition to the built-in one; repeatable
    #[arg(long, value_name = "FILE")]
    trusted_root: Vec<PathBuf>,
    #[command(flatten)]
    downloads: DownloadArgs,
    #[command(flatten)]
    target: TargetArgs,
}

fn named_file(text: &str) -> Result<ArtifactSource, String> {
    let (name, place) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected NAME=PATH or NAME=URL")?;
    let place = ArtifactLocation::parse(place).map_err(|error| error.to_string())?;
    Ok(ArtifactSource {
        name: Some(name.to_owned()),
        ..ArtifactSource::new(ArtifactKind::File, place)
    })
}

impl Add {
    fn sources(&self) -> Vec<ArtifactSource> {
        let charts = self.chart.iter().map(|place| ArtifactSource {
            values: self.values.clone(),
            ..ArtifactSource::new(ArtifactKind::Chart, place.clone())
        });
        let manifests = self.manifest.iter();
        let manifests =
            manifests.map(|place| ArtifactSource::new(ArtifactKind::Manifest, place.clone()));
        self.file
            .iter()
            .cloned()
            .chain(charts)
            .chain(manifests)
            .collect()
    }
}

/// Adds content to a bundle.
pub async fn run(arguments: Add, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let options = AddOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        sources: arguments.sources(),
        images: arguments.image,
        artifacts: arguments.artifact,
        add_images: !arguments.no_images,
        trusted_roots: arguments.trusted_root.clone(),
        downloads: arguments.downloads.options(),
        target: arguments.target.options(),
    };
    let report = add(&options, events, &stop).await?;
    report.added.iter().for_each(print);
    print_repacked(&report.repacked);
    Ok(())
}

fn print(added: &Added) {
    outln!("{}", added.description);
    if let Some(doubt) = &added.doubt {
        outln!("  {doubt}");
    }
    for (image, used) in &added.images {
        let used = match used {
            ImageUse::Present => "in the bundle",
            ImageUse::Added => "added",
            ImageUse::LeftOut => "left out",
            ImageUse::Guess => "a guess, left out; --image adds it",
            ImageUse::Unreadable => "not added; decide, and add it by --image",
        };
        outln!("  {image}: {used}");
    }
}
