use super::*;
use kubexm_config::example::{ROLES, text_of};
use kubexm_config::parse_cluster;

/// Returns the findings for hosts that were installed with these settings, and a cluster file with a change.
fn findings(from: &str, to: &str, control_plane: &str, worker: &str) -> Vec<String> {
    let installed = text_of(ROLES, "", "");
    let text = installed.replace(from, to);
    assert!(from.is_empty() || text != installed, "{from}");
    let cluster = parse_cluster("example", &text).unwrap();
    let facts = |settings: &str| {
        let mut facts = Facts {
            joined: true,
            ..Facts::default()
        };
        for line in settings.lines() {
            let (name, value) = line.trim().split_once(' ').unwrap();
            let setting = Setting::ALL.iter().find(|setting| setting.name() == name);
            let values = facts.applied.entry(*setting.unwrap()).or_default();
            values.insert(value.to_owned());
        }
        facts
    };
    let facts = BTreeMap::from([
        ("node1".parse().unwrap(), facts(control_plane)),
        ("node2".parse().unwrap(), facts(worker)),
    ]);
    let found = check(&cluster, &facts).into_iter();
    found
        .map(|finding| {
            assert!(finding.fatal && !finding.hint.is_empty(), "{finding}");
            format!("{}: {}", finding.host, finding.what)
        })
        .collect()
}

const CONTROL_PLANE: &str = "controlPlane yes
    kubernetesType kubeadm
    version 1.36.3
    dnsDomain cluster.local
    runtime unix:///run/containerd/containerd.sock
    endpoint 192.0.2.11:6443
    network flannel
    flannelBackend vxlan
    serviceCIDR 10.96.0.0/12
    podCIDR 10.244.0.0/16
    clusterName kubernetes
    advertiseAddress 192.0.2.11
    apiServerPort 6443
    etcdDataDir /var/lib/etcd
    etcd kubeadm
    etcdServers https://127.0.0.1:2379";
const WORKER: &str = "kubernetesType kubeadm
    dnsDomain cluster.local
    runtime unix:///run/containerd/containerd.sock
    endpoint 192.0.2.11:6443";

#[test]
fn unchanged_cluster_file_has_no_finding() {
    assert_eq!(findings("", "", CONTROL_PLANE, WORKER), [""; 0]);
    // A host whose install was interrupted, or of a version with other files, states nothing.
    assert_eq!(
        findings("", "", "controlPlane yes", "kubernetesType kubeadm"),
        [""; 0]
    );
}

#[test]
fn change_that_an_install_cannot_apply_is_refused_with_both_values() {
    let spec = |section: &str| format!("  kubernetes: {{version: 1.36.3}}\n  {section}\n");
    let kubernetes = |field: &str| format!("  kubernetes: {{version: 1.36.3, {field}}}\n");
    let cases = [
        (
            spec("network: {podCIDR: 10.200.0.0/16}"),
            "node1: network.podCIDR is 10.200.0.0/16 in the cluster file, but the cluster was installed with 10.244.0.0/16",
        ),
        (
            spec("network: {serviceCIDR: 10.97.0.0/16}"),
            "node1: network.serviceCIDR is 10.97.0.0/16 in the cluster file, but the cluster was installed with 10.96.0.0/12",
        ),
        (
            spec("network: {plugin: bridge}"),
            "node1: network.plugin is bridge in the cluster file, but the cluster was installed with flannel",
        ),
        (
            spec("network: {flannel: {backend: host-gw}}"),
            "node1: network.flannel.backend is host-gw in the cluster file, but the cluster was installed with vxlan",
        ),
        (
            spec("containerRuntime: {type: cri-o}"),
            "node1: containerRuntime.type is cri-o in the cluster file, but the cluster was installed with containerd",
        ),
        (
            spec("etcd: {type: systemd}"),
            "node1: etcd.type is systemd in the cluster file, but the cluster was installed with kubeadm",
        ),
        (
            kubernetes("dnsDomain: other.local"),
            "node1: kubernetes.dnsDomain is other.local in the cluster file, but the cluster was installed with cluster.local",
        ),
        (
            kubernetes("clusterName: other"),
            "node1: kubernetes.clusterName is other in the cluster file, but the cluster was installed with kubernetes",
        ),
        (
            kubernetes("type: systemd").replace('\n', "\n  etcd: {type: systemd}\n"),
            "node1: kubernetes.type is systemd in the cluster file, but the cluster was installed with kubeadm",
        ),
        (
            kubernetes("apiServer: {port: 7000}"),
            "node1: kubernetes.apiServer.port is 7000 in the cluster file, but the cluster was installed with 6443",
        ),
        (
            spec("etcd: {dataDir: /srv/etcd}"),
            "node1: etcd.dataDir is /srv/etcd in the cluster file, but the cluster was installed with /var/lib/etcd",
        ),
        (
            spec("controlPlaneEndpoint: {domain: api.example}"),
            "node1: controlPlaneEndpoint is api.example:6443 in the cluster file, but the cluster was installed with 192.0.2.11:6443",
        ),
        (
            "  kubernetes: {version: 1.37.0}\n".to_owned(),
            "node1: kubernetes.version is 1.37.0 in the cluster file, but the API server of the cluster is 1.36.3",
        ),
    ];
    for (section, expected) in cases {
        let found = findings(
            "  kubernetes: {version: 1.36.3}\n",
            &section,
            CONTROL_PLANE,
            WORKER,
        );
        assert!(
            found.iter().any(|one| one == expected),
            "{expected}: {found:#?}"
        );
    }
}

#[test]
fn changed_roles_and_addresses_are_refused() {
    let swapped = findings(
        "{control-plane: [node1], worker: [node2]}",
        "{control-plane: [node2], worker: [node1]}",
        CONTROL_PLANE,
        WORKER,
    );
    for expected in [
        "node2: node2 has the role control-plane in the cluster file, but it was installed as worker",
        "node1: node1 has the role worker in the cluster file, but it was installed as control-plane",
    ] {
        assert!(swapped.iter().any(|one| one == expected), "{swapped:#?}");
    }
    let moved = findings("192.0.2.11}", "192.0.2.13}", CONTROL_PLANE, WORKER);
    assert!(
        moved.contains(
            &"node1: internalAddress of node1 is 192.0.2.13 in the cluster file, but the cluster was installed with \
              192.0.2.11"
                .to_owned()
        ),
        "{moved:#?}"
    );
}

#[test]
fn changed_transport_of_calico_and_cilium_is_refused() {
    for (plugin, settings, applied, expected) in [
        (
            "calico",
            "encapsulation: ipip",
            "calicoEncapsulation vxlan",
            "node1: network.calico.encapsulation is ipip in the cluster file, but the cluster was installed with vxlan",
        ),
        (
            "cilium",
            "routing: native",
            "ciliumRouting geneve",
            "node1: network.cilium.routing is native in the cluster file, but the cluster was installed with geneve",
        ),
    ] {
        let section = format!(
            "  kubernetes: {{version: 1.36.3}}\n  network: {{plugin: {plugin}, {plugin}: {{{settings}}}}}\n"
        );
        let control_plane =
            CONTROL_PLANE.replace("network flannel\n    flannelBackend vxlan", applied);
        let found = findings(
            "  kubernetes: {version: 1.36.3}\n",
            &section,
            &control_plane,
            WORKER,
        );
        assert_eq!(found, [expected]);
    }
}

#[test]
fn runtime_that_kubexm_does_not_know_is_refused() {
    let other = "runtime unix:///run/other/other.sock";
    let known = "runtime unix:///run/containerd/containerd.sock";
    let control_plane = CONTROL_PLANE.replace(known, other);
    let worker = WORKER.replace(known, other);
    assert_eq!(
        findings("", "", &control_plane, &worker),
        [
            "node1: containerRuntime.type is containerd in the cluster file, but the kubelet uses the runtime at \
             unix:///run/other/other.sock, which kubexm does not know"
        ]
    );
}

#[test]
fn another_name_of_a_node_is_refused() {
    let worker = format!("{WORKER}\n    nodeName worker7");
    assert_eq!(
        findings("", "", CONTROL_PLANE, &worker),
        [
            "node2: the host with the address 192.0.2.12 has the name node2 in the cluster file, but its node has the name worker7"
        ]
    );
    let same = format!("{WORKER}\n    nodeName node2");
    assert_eq!(findings("", "", CONTROL_PLANE, &same), [""; 0]);
}

#[test]
fn programs_of_a_former_load_balancer_are_refused() {
    let control_plane = format!("{CONTROL_PLANE}\n    balancer haproxy");
    let found = findings("", "", &control_plane, WORKER);
    assert_eq!(
        found,
        [
            "node1: highAvailability and roleGroups.loadbalancer give node1 no haproxy, but haproxy of an earlier install runs on it"
        ]
    );
}

#[test]
fn proxies_as_static_pods_stay_as_they_are() {
    let on = |pod: &str, section: &str| {
        let settings = format!("kubernetesType kubeadm\n    balancer {pod}");
        let control_plane = format!("controlPlane yes\n    {settings}");
        let kubernetes = "  kubernetes: {version: 1.36.3}\n";
        let section = format!("{kubernetes}  {section}\n");
        findings(kubernetes, &section, &control_plane, &settings)
    };
    for proxy in ["haproxy", "nginx"] {
        let run = |run: &str| format!("highAvailability: {{type: {proxy}, run: {run}}}");
        let pod = format!("{proxy} pod");
        assert_eq!(on(&pod, &run("static-pod")), [""; 0]);
        let refused = ["node1", "node2"].map(|node| {
            format!(
                "{node}: highAvailability and roleGroups.loadbalancer give {node} no {pod}, but {pod} of an earlier \
                 install runs on it"
            )
        });
        assert_eq!(on(&pod, &run("systemd")), refused);
    }
}

#[test]
fn etcd_outside_of_the_cluster_may_change_in_part_only() {
    let control_plane = CONTROL_PLANE
        .replace("    etcd kubeadm\n", "")
        .replace("127.0.0.1:2379", "192.0.2.21:2379,https://192.0.2.22:2379");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/lib.rs");
    let with = |endpoint: &str| {
        let section = format!(
            "  kubernetes: {{version: 1.36.3}}\n  etcd: {{type: external, external: {{endpoints: ['{endpoint}'], \
             caFile: {file}, certFile: {file}, keyFile: {file}}}}}\n"
        );
        findings(
            "  kubernetes: {version: 1.36.3}\n",
            &section,
            &control_plane,
            WORKER,
        )
    };
    assert_eq!(with("https://192.0.2.22:2379"), [""; 0]);
    let found = with("https://192.0.2.31:2379");
    assert!(
        found[0].contains("etcd.external.endpoints is https://192.0.2.31:2379"),
        "{found:#?}"
    );
    let stacked = findings("", "", &control_plane, WORKER);
    assert!(stacked[0].contains("etcd.type is kubeadm"), "{stacked:#?}");
}

#[test]
fn encryption_is_removed_only_after_secrets_are_plain_text() {
    let encrypted = format!("{CONTROL_PLANE}\n    encryption encrypted");
    let found = findings("", "", &encrypted, WORKER);
    assert_eq!(
        found,
        [
            "node1: security.encryption is not in the cluster file, but the Secrets in etcd are encrypted"
        ]
    );
    let plain = format!("{encrypted}\n    encryption plain");
    assert_eq!(findings("", "", &plain, WORKER), [""; 0]);
    let kept = "  kubernetes: {version: 1.36.3}\n  security: {encryption: {provider: secretbox}}\n";
    let from = "  kubernetes: {version: 1.36.3}\n";
    assert_eq!(findings(from, kept, &encrypted, WORKER), [""; 0]);
}
