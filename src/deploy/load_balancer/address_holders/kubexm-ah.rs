//! keepalived before haproxy.

use crate::deploy::load_balancer::keepalived::Keepalived;
use crate::deploy::load_balancer::local_proxies::haproxy;

pub(super) const KIND: Keepalived = Keepalived {
    proxy: &haproxy::KIND,
};
