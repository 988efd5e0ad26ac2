//! Names of other tools: each is refused with the field to use.

use super::assert_refused;

#[test]
fn names_of_other_tools_lead_to_the_field() {
    for (kubernetes, sections, path, hint) in [
        (
            "proxyMode: ipvs",
            "",
            "spec.kubernetes.proxyMode",
            "kubeProxy: {mode",
        ),
        (
            "apiServer: {certExtraSans: [a]}",
            "",
            "spec.kubernetes.apiServer.certExtraSans",
            "certSANs",
        ),
        (
            "",
            "  network: {kubePodsCIDR: 10.1.0.0/16}\n",
            "spec.network.kubePodsCIDR",
            "podCIDR",
        ),
        (
            "",
            "  network: {kubeServiceCIDR: 10.1.0.0/16}\n",
            "spec.network.kubeServiceCIDR",
            "serviceCIDR",
        ),
        (
            "",
            "  etcd: {local: {dataDir: /srv}}\n",
            "spec.etcd.local",
            "write dataDir directly",
        ),
        (
            "",
            "  etcd: {local: {serverCertSANs: [a], peerCertSANs: [a]}}\n",
            "spec.etcd.local",
            "write certSANs directly",
        ),
        (
            "",
            "  dns: {upstreamDNSServers: [10.0.0.53]}\n",
            "spec.dns.upstreamDNSServers",
            "upstreams",
        ),
        (
            "",
            "  dns: {externalZones: []}\n",
            "spec.dns.externalZones",
            "servers: [192.0.2.53]",
        ),
        (
            "",
            "  system: {sysctlParams: {}}\n",
            "spec.system.sysctlParams",
            "sysctl",
        ),
        (
            "",
            "  highAvailability: {external: {type: kubexm-an}}\n",
            "spec.highAvailability.external",
            "type: keepalived-nginx directly",
        ),
        (
            "",
            "  highAvailability: {external: {type: haproxy}}\n",
            "spec.highAvailability.external",
            "type: haproxy directly",
        ),
    ] {
        assert_refused(kubernetes, sections, path, hint);
    }
}
