//! `kubexm bundle keygen`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::output::outln;
use crate::cli::password::KeyPasswordArgs;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_bundling::sign::keygen;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle keygen site")]
pub struct Keygen {
    /// Writes FILE.key, which stays secret, and FILE.pub, which verifies signatures
    #[arg(value_name = "FILE")]
    name: PathBuf,
    /// Do not encrypt the secret key with a password
    #[arg(long, conflicts_with = "password_file")]
    no_password: bool,
    #[command(flatten)]
    password: KeyPasswordArgs,
}

/// Creates a pair of keys.
pub fn run(arguments: &Keygen, output: Output) -> Result<(), Failure> {
    let password = if arguments.no_password {
        None
    } else {
        Some(arguments.password.new_password()?)
    };
    let files = keygen(&arguments.name, password)?;
    if output == Output::Json {
        return output::document("KeyFiles", &files);
    }
    outln!("{} (keep it secret)", files.secret.display());
    outln!(
        "{} (give it to everyone who verifies your bundles)",
        files.public.display()
    );
    Ok(())
}
