//! `spec.dns`.

use super::{GOOD, of_ipv6};
use crate::parse_cluster;

/// A cluster file with these networks and this address of the cache.
fn text(pods: &str, services: &str, address: &str) -> String {
    let sections = format!(
        "  network: {{plugin: none, podCIDR: \"{pods}\", serviceCIDR: \"{services}\"}}\n  dns: {{nodeLocal: {{address: \"{address}\"}}}}\n  kubernetes:"
    );
    let text = GOOD.replace("  kubernetes:", &sections);
    if pods.contains(':') {
        of_ipv6(&text)
    } else {
        text
    }
}

#[test]
fn hint_for_the_cache_names_an_address_that_is_accepted() {
    for (pods, services, address) in [
        ("10.244.0.0/16", "10.96.0.0/12", "10.244.0.10"),
        ("10.244.0.0/16", "10.96.0.0/12", "10.0.0.11"),
        ("10.244.0.0/16", "10.96.0.0/12", "127.0.0.1"),
        ("10.244.0.0/16", "10.96.0.0/12", "fd00::10"),
        ("169.254.0.0/16", "10.96.0.0/12", "169.254.20.10"),
        ("169.254.0.0/16", "192.168.0.0/16", "169.254.20.10"),
        ("fd00:10:244::/56", "fd00:10:96::/112", "169.254.20.10"),
        ("fd00::/56", "fd00:10:96::/112", "169.254.20.10"),
        ("fd00:10:244::/56", "fd00::/112", "fd00::10"),
    ] {
        let refused = parse_cluster("cluster.yaml", &text(pods, services, address)).unwrap_err();
        assert_eq!(refused.list.len(), 1, "{refused}");
        let hint = refused.list[0].hint.as_deref().unwrap();
        let suggested = hint.strip_prefix("use a free address, as in ").unwrap();
        let accepted = parse_cluster("cluster.yaml", &text(pods, services, suggested));
        assert!(accepted.is_ok(), "{suggested} for {refused}: {accepted:?}");
    }
}
