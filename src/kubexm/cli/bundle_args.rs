//! Arguments that name bundles, trusted keys and cluster files.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use kubexm_session::{BundleAccess, ClusterSource};
use kubexm_types::PublicKey;

/// How bundles are opened.
#[derive(Debug, Args)]
pub struct AccessArgs {
    /// Accept only bundles that this minisign key signed: a key file, or the key itself; repeatable
    #[arg(long, value_name = "KEY", value_parser = public_key)]
    trust: Vec<PublicKey>,
    /// A further folder with volumes of the bundle; repeatable
    #[arg(long, value_name = "DIR")]
    volumes: Vec<PathBuf>,
}

impl AccessArgs {
    /// Returns whether the user gave one of the options.
    pub fn is_given(&self) -> bool {
        !self.trust.is_empty() || !self.volumes.is_empty()
    }

    /// Returns the options for a command.
    pub fn options(&self) -> BundleAccess {
        BundleAccess {
            trust: self.trust.clone(),
            volumes: self.volumes.clone(),
        }
    }
}

/// Reads a key, or the file that contains it.
pub fn public_key(text: &str) -> Result<PublicKey, String> {
    if let Ok(key) = text.parse() {
        return Ok(key);
    }
    let content = std::fs::read_to_string(text)
        .map_err(|error| format!("neither a minisign public key nor a file with one: {error}"))?;
    content
        .parse()
        .map_err(|error| format!("the file contains no minisign public key: {error}"))
}

/// One bundle, as a positional argument or as `--bundle`.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// The bundle
    #[arg(value_name = "BUNDLE", required_unless_present = "bundle_option")]
    bundle: Option<PathBuf>,
    /// The bundle, as an option
    #[arg(
        long = "bundle",
        value_name = "BUNDLE",
        conflicts_with = "bundle",
        hide = true
    )]
    bundle_option: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
}

impl BundleArgs {
    /// Returns the path of the bundle.
    pub fn path(&self) -> Result<&Path, Failure> {
        let given = self.bundle.as_ref().or(self.bundle_option.as_ref());
        let missing = || Failure::configuration("name a bundle");
        given.map(PathBuf::as_path).ok_or_else(missing)
    }

    /// Returns how it is opened.
    pub fn access(&self) -> BundleAccess {
        self.access.options()
    }
}

/// A cluster file and its bundle.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The same as --bundle
    #[arg(value_name = "BUNDLE", conflicts_with = "bundle_option")]
    bundle: Vec<PathBuf>,
    /// The bundle; repeatable, with the base bundles of an incremental bundle before it
    #[arg(
        long = "bundle",
        value_name = "BUNDLE",
        required_unless_present = "bundle"
    )]
    bundle_option: Vec<PathBuf>,
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    access: AccessArgs,
}

impl ClusterArgs {
    /// Returns the options for a command.
    pub fn source(&self) -> ClusterSource {
        let bundles = if self.bundle.is_empty() {
            &self.bundle_option
        } else {
            &self.bundle
        };
        ClusterSource {
            bundles: bundles.clone(),
            cluster: self.cluster.clone(),
            access: self.access.options(),
        }
    }
}
