//! What a cluster offers after an install.

use serde::Serialize;

/// What a cluster has for applications, and for its own maintenance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Offers {
    /// The default StorageClass.
    pub storage_class: Option<String>,
    /// The default IngressClass, or another one without a default.
    pub ingress_class: Option<String>,
    /// Whether the API of `kubectl top` answers.
    pub metrics: bool,
    /// Whether this machine has a timer for backups.
    pub backup_timer: bool,
    /// Whether this machine has a timer that renews certificates.
    pub certificate_timer: bool,
    /// The number of charts and manifests of the bundle that are not applications of the cluster file.
    pub not_applied: usize,
}
