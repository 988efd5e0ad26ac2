//! keepalived before the example of a proxy.

use crate::deploy::load_balancer::keepalived::Keepalived;
use crate::deploy::load_balancer::local_proxies::example_proxy;

pub(super) const KIND: Keepalived = Keepalived {
    proxy: &example_proxy::KIND,
};
