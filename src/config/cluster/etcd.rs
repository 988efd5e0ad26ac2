//! `spec.etcd`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_types::HostPath;

/// Where the cluster's data lives.
#[derive(Debug, Clone)]
pub enum Etcd {
    /// Static pods that kubeadm makes, one on each control plane.
    Kubeadm {
        /// Flags for etcd.
        extra_args: BTreeMap<String, String>,
    },
    /// systemd units on the hosts of the role `etcd`, with certificates of kubexm's own.
    Systemd {
        /// Flags for etcd.
        extra_args: BTreeMap<String, String>,
        /// Where members keep their data.
        data_dir: HostPath,
    },
    /// An etcd that is there already.
    External {
        /// `https://host:port`.
        endpoints: Vec<String>,
        /// CA certificate, a file on this machine.
        ca_file: PathBuf,
        /// Client certificate, a file on this machine.
        cert_file: PathBuf,
        /// Client key, a file on this machine.
        key_file: PathBuf,
    },
}
