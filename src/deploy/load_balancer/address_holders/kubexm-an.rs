//! keepalived before nginx.

use crate::deploy::load_balancer::keepalived::Keepalived;
use crate::deploy::load_balancer::local_proxies::nginx;

pub(super) const KIND: Keepalived = Keepalived {
    proxy: &nginx::KIND,
};
