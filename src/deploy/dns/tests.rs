//! Tests of the configuration of CoreDNS and of the caches.

use super::*;
use crate::example::{cluster, file_of, with_inputs};
use kubexm_config::example::{ROLES, text_of};
use kubexm_config::parse_cluster;
use kubexm_engine::plan::PlannedFile;

const FLANNEL: [&str; 2] = [
    "ghcr.io/flannel-io/flannel:v0.28.4",
    "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
];
const MORE: &str = "dns: {hosts: [{address: 192.0.2.60, names: [git.corp.example, git]}], \
    zones: [{names: [corp.example, 10.in-addr.arpa], servers: [192.0.2.55], cacheSeconds: 300}, \
    {name: lab.example, servers: [192.0.2.56], cacheSeconds: 0}], extraBlocks: [\"test.example:53 {\\n    erratic\\n}\"]}";
const DNS: &str = "dns: {upstreams: [192.0.2.53, '192.0.2.54:5353'], zones: [{name: corp.example, servers: [192.0.2.55]}]}";

#[test]
fn coredns_forwards_to_configured_servers() {
    let cluster = cluster("", DNS);
    let text = with_inputs(&cluster, &FLANNEL, "", |inputs| {
        file_of(inputs, "node1", "/etc/kubexm/corefile.yaml").unwrap()
    });
    let map: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let corefile = map["data"]["Corefile"].as_str().unwrap();
    let servers = "\n    forward . 192.0.2.53:53 192.0.2.54:5353 {\n";
    let (cluster_block, zone) = corefile.split_once("\ncorp.example:53 {\n").unwrap();
    assert!(cluster_block.starts_with(".:53 {\n") && cluster_block.contains(servers));
    assert!(zone.contains("\n    forward . 192.0.2.55:53 {\n"), "{zone}");
    assert_eq!(corefile.matches('{').count(), corefile.matches('}').count());
}

#[test]
fn zones_have_names_and_cache_times_and_hosts_are_answered_in_every_block() {
    let cluster = cluster("", MORE);
    with_inputs(&cluster, &FLANNEL, "", |inputs| {
        assert!(corefile::differs_from_kubeadm(inputs));
        let text = corefile::for_coredns(inputs).unwrap();
        let hosts = "    hosts /dev/null {\n        192.0.2.60 git.corp.example git\n        fallthrough\n    }\n";
        assert_eq!(text.matches(hosts).count(), 3, "{text}");
        let (_, zones) = text
            .split_once("\ncorp.example:53 10.in-addr.arpa:53 {\n")
            .unwrap();
        let (first, second) = zones.split_once("\nlab.example:53 {\n").unwrap();
        assert!(first.contains("    cache 300\n"), "{text}");
        assert!(!second.contains("cache"), "{text}");
        assert!(
            second
                .trim_end()
                .ends_with("}\ntest.example:53 {\n    erratic\n}"),
            "{text}"
        );
        let cache = kubexm_config::cluster::NodeLocal {
            address: "169.254.20.10".parse().unwrap(),
            interface: kubexm_config::cluster::CacheInterface::Dummy,
        };
        let text = corefile::for_cache(inputs, &cache).unwrap();
        // Also in the block of the reverse zones.
        assert_eq!(text.matches(hosts).count(), 4, "{text}");
        assert!(
            text.contains("\ncorp.example:53 10.in-addr.arpa:53 {\n"),
            "{text}"
        );
        // Only CoreDNS has the additional block.
        assert!(
            text.starts_with("cluster.local:53 in-addr.arpa:53 ip6.arpa:53 test.example:53 {\n"),
            "{text}"
        );
    });
}

#[test]
fn hosts_without_a_name_server_forward_nothing() {
    let cluster = cluster("", "");
    with_inputs(&cluster, &FLANNEL, "", |inputs| {
        assert!(!corefile::differs_from_kubeadm(inputs));
        let text = corefile::for_coredns(inputs).unwrap();
        assert!(text.contains("forward . /etc/resolv.conf"), "{text}");
    });
    with_inputs(&cluster, &FLANNEL, "", |inputs| {
        let mut facts = inputs.host_facts(&"node2".parse().unwrap());
        facts.has_name_server = false;
        let inputs = Inputs {
            hosts: [("node2".parse().unwrap(), facts)].into(),
            ..inputs.clone()
        };
        assert!(corefile::differs_from_kubeadm(&inputs));
        assert!(!corefile::for_coredns(&inputs).unwrap().contains("forward"));
    });
}

#[test]
fn wrong_name_servers_zones_and_addresses_are_reported() {
    let mut all = String::new();
    for dns in [
        "upstreams: [dns.example]",
        "zones: [{name: cluster.local, servers: [192.0.2.1]}]",
        "zones: [{name: a.example}]",
        "zones: [{name: a.example, servers: []}]",
        "zones: [{name: a.example, servers: [192.0.2.1]}, {name: a.example, servers: [192.0.2.2]}]",
        "zones: [{servers: [192.0.2.1]}]",
        "zones: [{name: a.example, names: [b.example], servers: [192.0.2.1]}]",
        "hosts: [{address: 192.0.2.1}]",
        "extraBlocks: ['a.example { erratic }', 'erratic']",
        "nodeLocal: {address: 10.244.0.10}",
        "nodeLocal: {address: 192.0.2.11}",
        "nodeLocal: {address: 'fd00::10'}",
    ] {
        let text = text_of(ROLES, "", &format!("dns: {{{dns}}}"));
        let problems = parse_cluster("example", &text).unwrap_err();
        all += &format!("=== {dns}\n{problems}\n");
    }
    insta::assert_snapshot!(all, @"
    === upstreams: [dns.example]
    example:11:21: spec.dns.upstreams[0]: name server 'dns.example': expected an IP address, as in 192.0.2.53 or 192.0.2.53:5353
      hint: `kubexm config schema cluster` describes every field
    === zones: [{name: cluster.local, servers: [192.0.2.1]}]
    example:11:17: spec.dns.zones[0].name: is the domain of the cluster
      hint: remove the zone: CoreDNS answers for this domain itself
    === zones: [{name: a.example}]
    example:11:17: spec.dns.zones[0].servers: is missing
      hint: `kubexm config schema cluster` describes every field
    === zones: [{name: a.example, servers: []}]
    example:11:17: spec.dns.zones[0].servers: is empty
      hint: name at least one server
    === zones: [{name: a.example, servers: [192.0.2.1]}, {name: a.example, servers: [192.0.2.2]}]
    example:11:58: spec.dns.zones[1].name: the zone 'a.example' is defined twice
      hint: `kubexm config schema cluster` describes every field
    === zones: [{servers: [192.0.2.1]}]
    example:11:17: spec.dns.zones[0]: contains neither name nor names
      hint: write names, as in [corp.example, 10.in-addr.arpa]
    === zones: [{name: a.example, names: [b.example], servers: [192.0.2.1]}]
    example:11:17: spec.dns.zones[0]: contains both name and names
      hint: write names, as in [corp.example, 10.in-addr.arpa]
    === hosts: [{address: 192.0.2.1}]
    example:11:17: spec.dns.hosts[0].names: is missing
      hint: `kubexm config schema cluster` describes every field
    === extraBlocks: ['a.example { erratic }', 'erratic']
    example:11:23: spec.dns.extraBlocks[0]: is not a server block of a Corefile
      hint: end the first line with '{', indent with spaces, and write '}' in a line of its own
    example:11:48: spec.dns.extraBlocks[1]: is not a server block of a Corefile
      hint: end the first line with '{', indent with spaces, and write '}' in a line of its own
    === nodeLocal: {address: 10.244.0.10}
    example:11:30: spec.dns.nodeLocal.address: 10.244.0.10 is in podCIDR 10.244.0.0/16
      hint: use a free address, as in 169.254.20.10
    === nodeLocal: {address: 192.0.2.11}
    example:11:30: spec.dns.nodeLocal.address: 192.0.2.11 is the address of host node1
      hint: use a free address, as in 169.254.20.10
    === nodeLocal: {address: 'fd00::10'}
    example:11:30: spec.dns.nodeLocal.address: fd00::10 has another address family than the services of the cluster
      hint: use a free address, as in 169.254.20.10
    ");
}

#[test]
fn coredns_is_deployed_without_kubeadm() {
    let mut cluster = cluster("", "dns: {replicas: 3}");
    cluster.kubernetes.kind = kubexm_config::cluster::KubernetesKind::Systemd;
    let files: Vec<_> = with_inputs(&cluster, &[], "", |inputs| {
        let tasks = Dns
            .tasks(inputs, &Deployment::new(Default::default()))
            .unwrap();
        tasks[0]
            .steps
            .iter()
            .flat_map(|step| step.files())
            .filter_map(PlannedFile::rendered)
            .collect()
    });
    let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&files[0].content).unwrap();
    let kinds: Vec<&str> = objects.iter().filter_map(|o| o["kind"].as_str()).collect();
    let wanted = "ConfigMap ServiceAccount ClusterRole ClusterRoleBinding Deployment PodDisruptionBudget Service";
    assert_eq!(kinds.join(" "), wanted);
    let (deployment, service) = (&objects[4], &objects[6]);
    assert_eq!(deployment["spec"]["replicas"], 3);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["image"],
        "registry.k8s.io/coredns/coredns:v1.14.2"
    );
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.10");
}
