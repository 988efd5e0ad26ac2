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
            "  dns: {zones: [{names: [a.example], servers: [10.0.0.53], nameservers: [10.0.0.53]}]}\n",
            "spec.dns.zones[0].nameservers",
            "write servers",
        ),
        (
            "",
            "  dns: {zones: [{names: [a.example], servers: [10.0.0.53], zones: [a.example]}]}\n",
            "spec.dns.zones[0].zones",
            "write names",
        ),
        (
            "",
            "  dns: {zones: [{names: [a.example], servers: [10.0.0.53], cache: 30}]}\n",
            "spec.dns.zones[0].cache",
            "write cacheSeconds",
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
