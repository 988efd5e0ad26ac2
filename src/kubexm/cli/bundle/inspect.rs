//! `kubexm bundle inspect`.

use clap::Args;

use super::signature;
use crate::cli::bundle_args::BundleArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, output, trust};
use crate::report::{Output, bytes};
use kubexm_bundling::inspect::{InspectOptions, Inspection, inspect};
use kubexm_types::Arch;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle inspect bundle.tar.zst
  kubexm bundle inspect bundle.tar.zst --output json")]
pub struct Inspect {
    #[command(flatten)]
    bundle: BundleArgs,
    /// Only content for this architecture
    #[arg(long)]
    arch: Option<Arch>,
}

/// Prints the metadata of a bundle.
pub fn run(arguments: &Inspect, output: Output) -> Result<(), Failure> {
    let inspection = inspect(&InspectOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        arch: arguments.arch,
    })?;
    match output {
        Output::Json => output::document("BundleInspection", &inspection)?,
        Output::Auto | Output::Plain => print(&inspection),
    }
    Ok(())
}

fn print(bundle: &Inspection) {
    outln!("{} ({})", bundle.name, bundle.path.display());
    outln!("  size           {}", bytes(bundle.size));
    if let Some(volumes) = bundle.volumes {
        outln!("  volumes        {volumes}");
    }
    if let Some(base) = &bundle.base {
        outln!(
            "  base           {} for {} of {} blobs",
            base.name,
            base.blobs,
            base.total
        );
    }
    outln!(
        "  signature      {}",
        signature::line(bundle.signature.as_ref())
    );
    outln!("  lock           {}", bundle.lock);
    outln!("  kubernetes     {}", bundle.kubernetes.join(", "));
    let arches: Vec<&str> = bundle
        .architectures
        .iter()
        .map(|arch| arch.name())
        .collect();
    outln!("  architectures  {}", arches.join(", "));
    outln!("  files          {}", bundle.files);
    outln!("  images         {}", bundle.images);
    if bundle.oci_artifacts > 0 {
        outln!("  artifacts      {}", bundle.oci_artifacts);
    }
    for publisher in &bundle.publishers {
        outln!(
            "  signed         {} by {}",
            publisher.count(),
            publisher.signer
        );
    }
    if bundle.user_content > 0 {
        outln!("  your own       {}", bundle.user_content);
    }
    for set in &bundle.packages {
        outln!(
            "  packages       {} for {} {} {}",
            set.packages,
            set.distribution,
            set.release,
            set.arch
        );
    }
    trust::print_items(&bundle.trust);
}
