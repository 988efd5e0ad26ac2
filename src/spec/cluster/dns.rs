//! `spec.dns`.

/// `spec.dns`.
#[derive(Debug, Clone)]
pub struct Dns {
    /// CoreDNS replicas; `None` leaves kubeadm's two.
    pub replicas: Option<u32>,
}
