//! `kubexm config`: start, check and describe cluster files.

use std::path::PathBuf;

use clap::Subcommand;

use super::Failure;
use crate::spec;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print a commented cluster.yaml to start from
    Init,
    /// Say everything that is wrong in a cluster file
    Validate {
        /// The cluster
        #[arg(short, long, value_name = "CLUSTER")]
        file: PathBuf,
    },
    /// Print the JSON schema of cluster files
    Schema,
}

/// Runs one of the commands.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Init => print!("{}", spec::schema::TEMPLATE),
        Command::Schema => println!("{}", spec::schema::CLUSTER.trim_end()),
        Command::Validate { file } => {
            let cluster = spec::load_cluster(&file)?;
            println!(
                "{}: cluster '{}' with {} hosts is valid",
                file.display(),
                cluster.name,
                cluster.hosts.len()
            );
        }
    }
    Ok(())
}
