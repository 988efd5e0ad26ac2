//! Options of commands that download.

use std::path::PathBuf;

use clap::Args;

use kubexm_session::downloads::{DownloadOptions, Sandbox, mirror_sets};

/// How a command downloads.
#[derive(Debug, Args)]
pub struct DownloadArgs {
    /// A built-in set of mirrors to use before the public addresses
    #[arg(long = "mirror", value_name = "SET", value_parser = sets())]
    mirror_set: Option<String>,
    /// A mirrors file; it takes precedence over --mirror
    #[arg(long, value_name = "MIRRORS")]
    mirrors: Option<PathBuf>,
    /// Trust the CAs in this PEM file, in addition to the system's; repeatable
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// Connections to one host at the same time [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: Option<u16>,
    /// Folder for downloads that are kept between builds
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
    /// Run the downloaded kubeadm, helm and kubectl without a sandbox
    ///
    /// By default these programs have no network, no write access and no rights. Use this option in a container
    /// that permits neither root nor user namespaces.
    #[arg(long)]
    no_sandbox: bool,
}

/// The names that `--mirror` accepts.
fn sets() -> clap::builder::PossibleValuesParser {
    mirror_sets().into()
}

impl DownloadArgs {
    /// Returns the options for a command.
    pub fn options(&self) -> DownloadOptions {
        DownloadOptions {
            mirror_set: self.mirror_set.clone(),
            mirrors: self.mirrors.clone(),
            ca: self.ca.clone(),
            connections: self.connections,
            cache: self.cache.clone(),
            sandbox: if self.no_sandbox {
                Sandbox::Off
            } else {
                Sandbox::default()
            },
        }
    }
}
