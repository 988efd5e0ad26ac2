//! Which bundle is meant, and whose is taken.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use kubexm_bundle::{Access, Bundle, BundleSet};

use kubexm_commands::{BundleAccess, ClusterSource};
use kubexm_types::PublicKey;

/// How bundles are opened.
#[derive(Debug, Args)]
pub struct Opening {
    /// Take only bundles that this minisign key signed: its file, or the line in it; may be repeated
    #[arg(long, value_name = "KEY", value_parser = public_key)]
    trust: Vec<PublicKey>,
    /// Look there, too, for volumes of the bundle; may be repeated
    #[arg(long, value_name = "DIR")]
    volumes: Vec<PathBuf>,
}

impl Opening {
    /// Returns the options for a command.
    pub fn options(&self) -> BundleAccess {
        BundleAccess {
            trust: self.trust.clone(),
            volumes: self.volumes.clone(),
        }
    }

    fn access(&self) -> Access {
        Access {
            folders: self.volumes.clone(),
            trust: self.trust.clone(),
        }
    }

    /// Takes bundles by the keys that a cluster file trusts, too.
    pub fn trusting(mut self, cluster: &Path) -> Result<Self, Failure> {
        self.trust.extend(kubexm_config::load_trust(cluster)?);
        Ok(self)
    }

    /// Folders where volumes may be.
    pub fn folders(&self) -> &[PathBuf] {
        &self.volumes
    }

    /// Opens one bundle.
    pub fn open(&self, path: &Path) -> Result<Bundle, Failure> {
        Ok(Bundle::open_with(path, &self.access())?)
    }

    /// Opens one bundle that carries all of its content.
    pub fn open_complete(&self, path: &Path) -> Result<Bundle, Failure> {
        let bundle = self.open(path)?;
        match bundle.base() {
            None => Ok(bundle),
            Some(base) => Err(Failure::bundle(format!(
                "{}: carries only what was new to {}; make a whole one of both: kubexm bundle apply",
                path.display(),
                base.name
            ))),
        }
    }

    /// Opens a bundle, the last one, with what it leans on.
    pub fn open_whole(&self, paths: &[PathBuf]) -> Result<BundleSet, Failure> {
        Ok(BundleSet::open(paths, &self.access())?)
    }
}

/// A key, or the file that holds it.
pub(super) fn public_key(text: &str) -> Result<PublicKey, String> {
    if let Ok(key) = text.parse() {
        return Ok(key);
    }
    let content = std::fs::read_to_string(text)
        .map_err(|error| format!("neither a minisign public key nor a file with one: {error}"))?;
    content
        .parse()
        .map_err(|error| format!("the file holds no minisign public key: {error}"))
}

/// A cluster and what it is installed from.
#[derive(Debug, Args)]
pub struct Subject {
    /// The bundle; where it carries only what was new, give what it was built on before it
    #[arg(long, value_name = "BUNDLE", required = true)]
    bundle: Vec<PathBuf>,
    /// The cluster
    #[arg(short, long, value_name = "CLUSTER")]
    file: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

impl Subject {
    /// Returns the options for a command.
    pub fn source(&self) -> ClusterSource {
        ClusterSource {
            bundles: self.bundle.clone(),
            cluster: self.file.clone(),
            access: self.opening.options(),
        }
    }
}
