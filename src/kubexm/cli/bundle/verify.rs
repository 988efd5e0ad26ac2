//! `kubexm bundle verify`.

use std::path::PathBuf;

use clap::Args;

use super::signature;
use crate::cli::bundle_args::BundleArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, interrupt, output};
use crate::report::Output;
use kubexm_bundling::Sequence;
use kubexm_bundling::verify::{Depth, Verification, VerifyOptions, verify};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle verify bundle.tar.zst --trust site.pub
  kubexm bundle verify bundle.tar.zst --trust site.pub --min-sequence 1767323045
  kubexm bundle verify bundle.tar.zst --deep
  kubexm bundle verify bundle.tar.zst.003 --volume-only")]
pub struct Verify {
    #[command(flatten)]
    bundle: BundleArgs,
    /// Only the named volume, against the list beside it
    #[arg(long, alias = "alone", conflicts_with = "metadata_only")]
    volume_only: bool,
    /// Only the index and the placement document; takes no time
    #[arg(long, alias = "quick")]
    metadata_only: bool,
    /// Recompress all layers and archives again, as the builder did; takes 10 to 20 times as long
    #[arg(long, conflicts_with_all = ["volume_only", "metadata_only"])]
    deep: bool,
    /// The trusted root of a private Sigstore instance (trusted_root.json), for images that are signed
    /// under it; repeatable
    #[arg(long, value_name = "FILE", conflicts_with_all = ["volume_only", "metadata_only"])]
    trusted_root: Vec<PathBuf>,
    /// Refuse a bundle whose signature states a smaller sequence number
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "volume_only",
        requires = "trust"
    )]
    min_sequence: Option<Sequence>,
}

/// Verifies a bundle.
pub async fn run(arguments: &Verify, output: Output, events: &Events) -> Result<(), Failure> {
    let depth = match arguments {
        Verify {
            volume_only: true, ..
        } => Depth::Volume,
        Verify {
            metadata_only: true,
            ..
        } => Depth::Index,
        Verify { deep: true, .. } => Depth::Deep,
        Verify { .. } => Depth::Content,
    };
    let options = VerifyOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        depth,
        trusted_roots: arguments.trusted_root.clone(),
        min_sequence: arguments.min_sequence,
    };
    // In JSON, standard output is for the document alone.
    let silent = Events::silent();
    let events = match output {
        Output::Json => &silent,
        Output::Auto | Output::Plain => events,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let verification = verify(options, events, &stop).await?;
    match output {
        Output::Json => output::document("BundleVerification", &verification)?,
        Output::Auto | Output::Plain => print(&verification),
    }
    Ok(())
}

fn print(found: &Verification) {
    let path = found.path.display();
    match found.verified {
        Depth::Volume => outln!("{path}: the volume matches the list"),
        Depth::Index => outln!("{path}: the index matches the file; no content was read"),
        Depth::Content if found.proven > 0 => outln!(
            "{path}: every blob matches its digest; of {} gzip blobs the content does, and \
             the builder has recompressed them (--deep repeats this)",
            found.proven
        ),
        Depth::Content => outln!("{path}: every blob matches its digest"),
        Depth::Deep => outln!("{path}: every blob matches its digest, and was recompressed"),
    }
    if found.verified != Depth::Volume {
        outln!("  signature: {}", signature::line(found.signature.as_ref()));
    }
    for publisher in &found.publishers {
        outln!("  {}: signed by {}", publisher.count(), publisher.signer);
    }
    if found.signed_in_base > 0 {
        let count = found.signed_in_base;
        outln!("  {count}: their signatures are in the base bundle");
    }
    for name in &found.not_verified {
        outln!("  not verified: {name} is signed under another trusted root; give --trusted-root");
    }
}
