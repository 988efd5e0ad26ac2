//! `spec.registry`.

use crate::spec::{HostName, HostPath};

/// `spec.registry`.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Its name in certificates, `/etc/hosts` and `hosts.toml`.
    pub host_name: HostName,
    /// TLS port.
    pub port: u16,
    /// Where it keeps blobs.
    pub data_dir: HostPath,
}
