//! How the connected side downloads: mirrors, certificates, limits, and the cache.

use std::path::{Path, PathBuf};

use crate::CommandError;
use kubexm_config::Mirrors;
use kubexm_fetch::{Cache, Http};
pub use kubexm_sandbox::Sandbox;
use kubexm_types::WarningKind;
use kubexm_types::event::Events;

pub use kubexm_catalog::mirror_sets;

/// Options of every command that downloads.
#[derive(Debug, Clone, Default)]
pub struct DownloadOptions {
    /// The name of a built-in set of mirrors, one of [`mirror_sets`].
    pub mirror_set: Option<String>,
    /// A mirrors file; it takes precedence over the set.
    pub mirrors: Option<PathBuf>,
    /// PEM files of CAs that are trusted in addition to the system's.
    pub ca: Vec<PathBuf>,
    /// The number of connections to one host at the same time.
    pub connections: Option<u16>,
    /// The cache folder; `None` for the default one.
    pub cache: Option<PathBuf>,
    /// How kubeadm, helm and kubectl run.
    pub sandbox: Sandbox,
}

impl DownloadOptions {
    /// Combines the options, the mirrors file and the named set, in this order of precedence.
    pub fn mirrors(&self) -> Result<Mirrors, CommandError> {
        let mut mirrors = match &self.mirrors {
            Some(path) => kubexm_config::load_mirrors(path)?,
            None => Mirrors::default(),
        };
        if let Some(name) = &self.mirror_set {
            mirrors = mirrors.over(kubexm_catalog::mirrors(name)?);
        }
        mirrors.ca.extend(self.ca.iter().cloned());
        mirrors.connections = self.connections.map(usize::from).or(mirrors.connections);
        Ok(mirrors)
    }

    /// Creates a client that uses `mirrors`.
    pub fn client(&self, mirrors: Mirrors, events: &Events) -> Result<Http, CommandError> {
        let cache = open_cache(self.cache.as_deref())?;
        if matches!(self.sandbox, Sandbox::Off) {
            events.warn(
                WarningKind::Rights,
                "kubeadm, helm and kubectl run without a sandbox, with all rights of this user",
            );
        }
        let http = Http::new(mirrors, cache, events.clone())?;
        Ok(http.with_sandbox(self.sandbox.clone()))
    }

    /// Creates a client that uses the mirrors of these options.
    pub fn http(&self, events: &Events) -> Result<Http, CommandError> {
        self.client(self.mirrors()?, events)
    }
}

/// Opens a cache folder; `None` for the default one.
pub fn open_cache(folder: Option<&Path>) -> Result<Cache, CommandError> {
    let folder = folder.map_or_else(Cache::default_dir, Path::to_owned);
    Ok(Cache::open(&folder)?)
}
