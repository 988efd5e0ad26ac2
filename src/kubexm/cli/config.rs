//! `kubexm config`: templates, schemas and validation of the files that users write.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::bundle_args::AccessArgs;
use super::output::outln;
use super::{Failure, output};
use crate::report::Output;
use kubexm_bundling::config::{self, Validated, Validation};
use kubexm_session::ClusterSource;
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print a commented file to start from
    #[command(after_long_help = "Examples:
  kubexm config init > cluster.yaml
  kubexm config init bundle > bundle.yaml")]
    Init {
        /// The kind of file
        #[arg(value_enum, default_value = "cluster")]
        document: Document,
    },
    /// Report everything that is wrong in a cluster, bundle or mirrors file
    Validate(Validate),
    /// Print the JSON schema of a kind of file
    #[command(after_long_help = "Examples:
  kubexm config schema cluster > cluster.schema.json")]
    Schema {
        /// The kind of file
        #[arg(value_enum, default_value = "cluster")]
        document: Document,
    },
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm config validate cluster.yaml
  kubexm config validate -f cluster.yaml --bundle B.tar.zst
  kubexm config validate -f bundle.yaml --output json")]
pub struct Validate {
    /// The file; its `kind` selects the checks
    #[arg(value_name = "FILE", required_unless_present = "file_option")]
    file: Option<PathBuf>,
    /// The file, as an option
    #[arg(
        short = 'f',
        long = "file",
        value_name = "FILE",
        conflicts_with = "file"
    )]
    file_option: Option<PathBuf>,
    /// Also let the programs of this bundle check a cluster file; repeatable, with the base bundles before it
    #[arg(long, value_name = "BUNDLE")]
    bundle: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
}

/// The kinds of files that users write.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Document {
    /// The hosts and what runs on them: `kubexm install -f`
    Cluster,
    /// The content of a bundle: `kubexm bundle build -f`
    Bundle,
    /// Where to download from: `kubexm bundle build --mirrors`
    Mirrors,
}

impl From<Document> for config::Document {
    fn from(document: Document) -> Self {
        match document {
            Document::Cluster => Self::Cluster,
            Document::Bundle => Self::Bundle,
            Document::Mirrors => Self::Mirrors,
        }
    }
}

/// Runs one of the commands.
pub async fn run(command: Command, output: Output, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Init { document } => output::text(config::template(document.into())),
        Command::Schema { document } => output::text(&config::schema(document.into())),
        Command::Validate(arguments) => validate(&arguments, output, events).await?,
    }
    Ok(())
}

async fn validate(arguments: &Validate, output: Output, events: &Events) -> Result<(), Failure> {
    let given = arguments.file.as_ref().or(arguments.file_option.as_ref());
    let file = given.ok_or_else(|| Failure::configuration("name a file"))?;
    if arguments.bundle.is_empty() && arguments.access.is_given() {
        return Err(
            Failure::configuration("--trust and --volumes are about a bundle")
                .hint("name the bundle with --bundle"),
        );
    }
    let result = if arguments.bundle.is_empty() {
        config::validate(file, events)
    } else {
        let source = ClusterSource {
            bundles: arguments.bundle.clone(),
            cluster: file.clone(),
            access: arguments.access.options(),
        };
        config::validate_for(&source, events).await
    };
    if output == Output::Json {
        let validation = match &result {
            Ok(valid) => valid.clone(),
            Err(error) => Validation::of_error(file, error),
        };
        output::document("Validation", &validation)?;
        return result
            .map(|_| ())
            .map_err(|error| Failure::from(error).reported());
    }
    let path = file.display();
    match result?.content {
        Some(Validated::Cluster { name, hosts }) => {
            let noun = if hosts == 1 { "host" } else { "hosts" };
            outln!("{path}: cluster '{name}' with {hosts} {noun} is valid");
        }
        Some(Validated::Bundle { name }) => outln!("{path}: bundle manifest '{name}' is valid"),
        Some(Validated::Mirrors) | None => outln!("{path}: the mirrors file is valid"),
    }
    Ok(())
}
