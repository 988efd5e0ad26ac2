//! Networks, firewalls and name servers of the site.

use super::*;
use kubexm_config::cluster::IpFamilies;

/// The addresses of the site that pods or services have are out of reach, and their senders get no answer.
#[test]
fn networks_of_the_site_must_not_be_those_of_the_cluster() {
    let mut dual = cluster("", "");
    let both =
        |nets: [&str; 2]| IpFamilies::from_list(&nets.map(|net| net.parse().unwrap())).unwrap();
    dual.network.pod_cidr = both(["10.244.0.0/16", "fd00:10:244::/56"]);
    dual.network.service_cidr = both(["10.96.0.0/12", "fd00:10:96::/112"]);
    for (line, fatal) in [
        ("10.244.8.0/24 eth1 -", true),
        ("10.100.0.7 eth1 -", true),
        ("fd00:10:244:3::/64 eth1 -", true),
        ("10.99.0.0/16 eth0 192.0.2.1", false),
        ("10.99.0.0/16 - several", false),
    ] {
        let found = in_cluster(
            &dual,
            "node1",
            &Facts::default(),
            &format!("network={line}"),
        );
        assert_eq!(found.len(), 1, "{line}: {found:#?}");
        assert_eq!(
            (found[0].kind, found[0].fatal),
            (FindingKind::Routes, fatal)
        );
    }
    for harmless in [
        "192.0.2.0/24 eth0 -",
        "10.0.0.0/8 eth0 192.0.2.1",
        "10.244.1.0/24 cni0 -",
        "10.244.2.0/24 flannel.1 10.244.2.0",
        "10.244.3.7 cali12345 -",
        "10.96.0.10 kube-ipvs0 -",
    ] {
        assert_eq!(found("", &format!("network={harmless}")), [], "{harmless}");
    }
    assert_eq!(
        on(
            "registry1",
            &Facts::default(),
            "",
            "network=10.244.8.0/24 eth1 -"
        ),
        []
    );
}
