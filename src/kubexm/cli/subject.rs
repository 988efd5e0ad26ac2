//! Which bundle is meant, and whose is taken.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::Failure;
use kubexm_bundle::{Access, Bundle, Whole};

use kubexm_config::Cluster;
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
    pub fn open_whole(&self, paths: &[PathBuf]) -> Result<Whole, Failure> {
        Ok(Whole::open(paths, &self.access())?)
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
    /// Opens the bundle, by the keys that were named or that the cluster file trusts, and reads the
    /// cluster.
    pub fn open(&self) -> Result<(Arc<Whole>, Cluster), Failure> {
        let mut access = self.opening.access();
        access.trust.extend(kubexm_config::load_trust(&self.file)?);
        let bundle = Whole::open(&self.bundle, &access)?;
        let cluster = kubexm_config::load_cluster_for(&self.file, &bundle.lock().kubernetes)?;
        kubexm_deploy::admit(&cluster)?;
        Ok((Arc::new(bundle), cluster))
    }
}
