//! `spec.etcd`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_types::{CertificateName, HostPath};

/// The data directory of members on their hosts by default, as in kubeadm.
pub const DEFAULT_ETCD_DATA_DIR: &str = "/var/lib/etcd";

/// The etcd of the cluster.
#[derive(Debug, Clone)]
pub enum Etcd {
    /// Static pods that kubeadm creates, one on each control plane.
    Kubeadm {
        extra_args: BTreeMap<String, String>,
        /// Data directory of the members.
        data_dir: HostPath,
        /// Additional names and addresses for the certificates of the members.
        cert_sans: Vec<CertificateName>,
    },
    /// systemd units on the hosts of the role `etcd`, with certificates that kubexm issues.
    Systemd {
        extra_args: BTreeMap<String, String>,
        /// Data directory of the members.
        data_dir: HostPath,
        /// Additional names and addresses for the certificates of the members.
        cert_sans: Vec<CertificateName>,
        /// Whether etcd keeps its memory from being swapped out.
        lock_memory: bool,
    },
    /// An existing etcd.
    External {
        /// `https://host:port`.
        endpoints: Vec<String>,
        /// File on the controller with the CA certificate.
        ca_file: PathBuf,
        /// File on the controller with the client certificate.
        cert_file: PathBuf,
        /// File on the controller with the client key.
        key_file: PathBuf,
    },
}

impl Etcd {
    /// Returns the data directory of a member on its host; `None` for an etcd that kubexm does not run.
    pub fn data_directory(&self) -> Option<&str> {
        match self {
            Self::Kubeadm { data_dir, .. } | Self::Systemd { data_dir, .. } => {
                Some(data_dir.as_str())
            }
            Self::External { .. } => None,
        }
    }
}
