//! `kubexm config`: start, check and describe cluster files.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::Failure;
use super::out::{self, say};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print a commented file to start from
    Init {
        /// The kind of file
        #[arg(value_enum, default_value = "cluster")]
        document: Document,
    },
    /// Say everything that is wrong in a cluster file
    Validate {
        /// The cluster
        #[arg(short, long, value_name = "CLUSTER")]
        file: PathBuf,
    },
    /// Print the JSON schema of a kind of file
    Schema {
        /// The kind of file
        #[arg(value_enum, default_value = "cluster")]
        document: Document,
    },
}

/// What users write.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Document {
    /// The hosts and what shall run on them: `kubexm install -f`
    Cluster,
    /// What shall be in a bundle: `kubexm bundle build -f`
    Bundle,
    /// Where to download from instead: `kubexm bundle build --mirrors`
    Mirrors,
}

/// Runs one of the commands.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Init { document } => out::text(match document {
            Document::Cluster => kubexm_config::schema::TEMPLATE,
            Document::Bundle => kubexm_config::schema::BUNDLE_TEMPLATE,
            Document::Mirrors => kubexm_config::schema::MIRRORS_TEMPLATE,
        }),
        Command::Schema { document } => out::text(&match document {
            Document::Cluster => kubexm_config::schema::cluster(),
            Document::Bundle => kubexm_config::schema::BUNDLE.to_owned(),
            Document::Mirrors => kubexm_config::schema::MIRRORS.to_owned(),
        }),
        Command::Validate { file } => {
            let cluster = kubexm_config::load_cluster(&file)?;
            kubexm_deploy::admit(&cluster)?;
            say!(
                "{}: cluster '{}' with {} hosts is valid",
                file.display(),
                cluster.name,
                cluster.hosts.len()
            );
        }
    }
    Ok(())
}
