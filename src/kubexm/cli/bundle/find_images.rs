//! `kubexm bundle find-images`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::AccessArgs;
use crate::cli::downloads::DownloadArgs;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_bundling::find_images::{
    FindOptions, FoundImages, ImageSource, NeededImage, find_images,
};
use kubexm_types::ImagePath;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle find-images app-1.0.0.tgz --values site-values.yaml
  kubexm bundle find-images -f bundle.yaml --cluster cluster.yaml
  kubexm bundle find-images charts/app overlays/site --bundle bundle.tar.zst
  kubexm bundle find-images - --output json")]
pub struct FindImages {
    /// A chart, a manifest, a kustomization, a list of images (.txt), or - for standard input
    ///
    /// A chart is a directory, an archive (.tgz) or an address (oci://), a kustomization is a directory, and a list has one image
    /// in a line. Standard input is for manifests that other programs print, such as `kubectl get pods -A -o yaml`.
    #[arg(value_name = "SOURCE", required_unless_present = "manifest")]
    source: Vec<String>,
    /// Also search the charts and manifests of this bundle manifest, and render with its helm and kubectl
    #[arg(short = 'f', long, alias = "file", value_name = "MANIFEST")]
    manifest: Option<PathBuf>,
    /// Render with the helm and the kubectl of this bundle
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Values to render the charts that are named as SOURCE; repeatable
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Render charts with the values of the applications of this cluster file
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<PathBuf>,
    /// A field of custom resources that names an image, as in Foo:.spec.driver.image; repeatable
    #[arg(long, value_name = "KIND:PATH")]
    image_path: Vec<ImagePath>,
    #[command(flatten)]
    downloads: DownloadArgs,
}

/// Prints the images as a part of a bundle manifest.
pub async fn run(arguments: &FindImages, output: Output, events: &Events) -> Result<(), Failure> {
    let silent = Events::silent();
    let events = match output {
        Output::Json => &silent,
        Output::Auto | Output::Plain => events,
    };
    let sources = arguments.source.iter().map(|text| ImageSource::parse(text));
    let options = FindOptions {
        sources: sources.collect::<Result<_, _>>()?,
        manifest: arguments.manifest.clone(),
        bundle: arguments.bundle.clone(),
        access: arguments.access.options(),
        values: arguments.values.clone(),
        cluster: arguments.cluster.clone(),
        paths: arguments.image_path.clone(),
        downloads: arguments.downloads.options(),
    };
    let found = find_images(&options, events).await?;
    match output {
        Output::Json => output::document("FoundImages", &found)?,
        Output::Auto | Output::Plain => output::text(&yaml(&found)),
    }
    Ok(())
}

/// Returns the images as YAML for `spec.images`. Candidates are comments. Each image stands below the first source that has it.
fn yaml(found: &FoundImages) -> String {
    let all = found.sources.iter().flat_map(|source| &source.images);
    let included = all.filter(|image| image.included);
    let included: BTreeSet<&str> = included.map(|image| image.name.as_str()).collect();
    let head = if included.is_empty() {
        "images: []"
    } else {
        "images:"
    };
    let mut text = format!("{head}\n");
    let mut printed = BTreeSet::new();
    for source in &found.sources {
        let _ = writeln!(text, "  # {}", source.source);
        for line in source.doubt.iter().flat_map(|doubt| doubt.lines()) {
            let _ = writeln!(text, "  # {line}");
        }
        let mut images: Vec<&NeededImage> = source.images.iter().collect();
        images.retain(|image| image.included || !included.contains(image.name.as_str()));
        images.retain(|image| printed.insert(image.name.as_str()));
        let (needed, candidates): (Vec<&NeededImage>, Vec<_>) =
            images.into_iter().partition(|image| image.included);
        for NeededImage { name, place, .. } in needed {
            let _ = writeln!(text, "  - {name} # {place}");
        }
        if !candidates.is_empty() {
            text.push_str("  # Not included. Add those that pods need:\n");
        }
        for NeededImage {
            name,
            place,
            problem,
            ..
        } in candidates
        {
            let _ = match problem {
                Some(problem) => writeln!(text, "  # '{name}' # {place}: {problem}"),
                None => writeln!(text, "  # - {name} # {place}"),
            };
        }
    }
    text
}
