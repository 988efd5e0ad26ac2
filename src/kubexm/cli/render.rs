//! `kubexm render`: the files that an install would put on the hosts.

use std::path::PathBuf;

use clap::Args;

use super::bundle_args::ClusterArgs;
use super::output::outln;
use super::{Failure, output};
use crate::report::Output;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm render -f <CLUSTER> --bundle <BUNDLE> --out <DIR> [OPTIONS]",
    after_long_help = "Examples:
  kubexm render -f c.yaml --bundle b.tar.zst -o rendered"
)]
pub struct Render {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Folder for <host>/<absolute path>
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes the files.
pub fn run(arguments: &Render, output: Output, events: &Events) -> Result<(), Failure> {
    let rendered =
        kubexm_lifecycle::render::render(&arguments.cluster.source(), &arguments.out, events)?;
    if output == Output::Json {
        return output::document("RenderedFiles", &rendered);
    }
    outln!(
        "{} files in {}",
        rendered.files.len(),
        arguments.out.display()
    );
    Ok(())
}
