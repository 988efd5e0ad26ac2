//! How the connected side asks for things: mirrors, certificates, limits, and where it keeps them.

use std::path::PathBuf;

use clap::Args;

use super::Failure;

use kubexm_config::Mirrors;
use kubexm_fetch::{Cache, Http};
use kubexm_types::event::Events;

/// Options of every command that downloads.
#[derive(Debug, Args)]
pub struct Downloads {
    /// A named set of mirrors to ask before the public addresses
    #[arg(long = "mirror", value_name = "SET", value_parser = mirror_sets())]
    mirror_set: Option<String>,
    /// Mirrors to ask instead of the public addresses; they win over --mirror
    #[arg(long, value_name = "MIRRORS")]
    mirrors: Option<PathBuf>,
    /// Trust the authorities in this PEM file, besides the system's
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// Connections to one host at once [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: Option<u16>,
    /// Where downloads are kept between builds
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

/// Names that `--mirror` takes.
fn mirror_sets() -> clap::builder::PossibleValuesParser {
    kubexm_catalog::mirror_sets().into()
}

impl Downloads {
    /// What the options say: themselves first, then the file, then the named set.
    pub fn mirrors(&self) -> Result<Mirrors, Failure> {
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

    /// Opens the cache.
    pub fn cache(&self) -> Result<Cache, Failure> {
        let root = self.cache.clone().unwrap_or_else(Cache::default_dir);
        Ok(Cache::open(&root)?)
    }

    /// A client by these options, and with these mirrors.
    pub fn client(&self, mirrors: Mirrors, events: &Events) -> Result<Http, Failure> {
        Ok(Http::new(mirrors, self.cache()?, events.clone())?)
    }

    /// A client by these options.
    pub fn http(&self, events: &Events) -> Result<Http, Failure> {
        self.client(self.mirrors()?, events)
    }
}
