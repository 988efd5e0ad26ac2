//! Names of other tools: those of the owner's first documents are accepted with a notice, others are refused with the field to use.

use super::{assert_refused, read};
use crate::Cluster;

#[test]
fn names_of_other_tools_lead_to_the_field() {
    for (kubernetes, sections, path, hint) in [
        (
            "apiServer: {certExtraSans: [a]}",
            "",
            "spec.kubernetes.apiServer.certExtraSans",
            "certSANs",
        ),
        (
            "",
            "  system: {sysctlParams: {}}\n",
            "spec.system.sysctlParams",
            "sysctl",
        ),
    ] {
        assert_refused(kubernetes, sections, path, hint);
    }
}

#[test]
fn other_names_mean_the_same_and_give_a_notice() {
    let without_notices = |mut cluster: Cluster| {
        let notices = std::mem::take(&mut cluster.notices);
        let notices: Vec<String> = notices.iter().map(ToString::to_string).collect();
        (format!("{cluster:?}"), notices)
    };
    for (other, meant, notices) in [
        (("proxyMode: ipvs", ""), ("kubeProxy: {mode: ipvs}", ""), 1),
        (
            ("proxyMode: ipvs, kubeProxy: ", ""),
            ("kubeProxy: {mode: ipvs}", ""),
            1,
        ),
        (
            (
                "",
                "  network: {kubePodsCIDR: 10.1.0.0/16, podCIDR: null}\n",
            ),
            ("", "  network: {podCIDR: 10.1.0.0/16}\n"),
            1,
        ),
        (
            (
                "proxyMode: ipvs, kubeProxy: {extraConfig: {metricsBindAddress: a}}",
                "",
            ),
            (
                "kubeProxy: {extraConfig: {metricsBindAddress: a}, mode: ipvs}",
                "",
            ),
            1,
        ),
        (
            (
                "",
                "  network: {kubePodsCIDR: 10.1.0.0/16, kubeServiceCIDR: 10.2.0.0/16}\n",
            ),
            (
                "",
                "  network: {podCIDR: 10.1.0.0/16, serviceCIDR: 10.2.0.0/16}\n",
            ),
            2,
        ),
        (
            (
                "",
                "  etcd: {local: {dataDir: /srv, extraArgs: {v: 2}, serverCertSANs: [a], peerCertSANs: [b]}}\n",
            ),
            (
                "",
                "  etcd: {dataDir: /srv, extraArgs: {v: 2}, certSANs: [a, b]}\n",
            ),
            4,
        ),
        (
            (
                "",
                "  dns: {upstreamDNSServers: [10.0.0.53], externalZones: [{zones: [a.b], nameservers: [10.0.0.54], cache: 5}]}\n",
            ),
            (
                "",
                "  dns: {upstreams: [10.0.0.53], zones: [{names: [a.b], servers: [10.0.0.54], cacheSeconds: 5}]}\n",
            ),
            5,
        ),
        (
            (
                "",
                "  highAvailability: {external: {type: kubexm-ah}}\n  controlPlaneEndpoint: {address: 10.0.0.9}\n",
            ),
            (
                "",
                "  highAvailability: {type: keepalived-haproxy}\n  controlPlaneEndpoint: {address: 10.0.0.9, port: 8443}\n",
            ),
            2,
        ),
        (
            ("", "  highAvailability: {internal: {type: haproxy}}\n"),
            ("", "  highAvailability: {type: haproxy}\n"),
            1,
        ),
    ] {
        let cluster = |(kubernetes, sections): (&str, &str)| {
            read(kubernetes, sections).unwrap_or_else(|problems| panic!("{problems}"))
        };
        let (found, told) = without_notices(cluster(other));
        let (expected, none) = without_notices(cluster(meant));
        assert_eq!(found, expected, "{other:?}");
        assert!(none.is_empty() && told.len() == notices, "{told:?}");
        assert!(told[0].contains("hint: write "), "{told:?}");
    }
}

#[test]
fn a_field_by_two_names_is_refused() {
    let both = "proxyMode: ipvs, kubeProxy: {mode: iptables}";
    let path = "spec.kubernetes.kubeProxy.mode";
    assert_refused(both, "", path, "remove one of the two");
}

#[test]
fn keepalived_on_control_planes_has_another_port_than_the_api_server() {
    let port = |kubernetes: &str, roles: &str| {
        let sections = format!(
            "  highAvailability: {{type: kubexm-ah}}\n  controlPlaneEndpoint: {{address: 10.0.0.9}}\n{roles}"
        );
        read(kubernetes, &sections)
            .unwrap()
            .control_plane_endpoint
            .port
    };
    assert_eq!(port("", ""), 8443);
    assert_eq!(port("apiServer: {port: 7443}", ""), 6443);
}
