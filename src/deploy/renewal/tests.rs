use super::*;
use kubexm_config::example::cluster_of;

const ROLES: &str = "control-plane: [node1, node2, node3], worker: [node4], registry: [node1]";

/// Returns a cluster of three control planes and a worker with these fields of `kubernetes` and these sections.
pub(crate) fn cluster(kubernetes: &str, sections: &str) -> Cluster {
    with_balancer(kubernetes, sections, "{type: external}")
}

/// Returns the same cluster with another `highAvailability`.
pub(crate) fn with_balancer(kubernetes: &str, sections: &str, balancer: &str) -> Cluster {
    // A proxy of each node listens on loopback.
    let address = if balancer.contains("run: ") {
        ""
    } else {
        ", address: 192.0.2.9"
    };
    let endpoint = format!("controlPlaneEndpoint: {{domain: api.example{address}}}");
    let sections = format!("{endpoint}\nhighAvailability: {balancer}\n{sections}");
    let mut cluster = cluster_of(ROLES, kubernetes, &sections);
    // The worker is the first host of the file.
    cluster.hosts.rotate_right(1);
    cluster
}

/// Returns the steps of a renewal.
fn steps(cluster: &Cluster, hosts: &[&str], expired: bool, kubelets: &[&str]) -> Vec<String> {
    let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
    let (selected, expired_kubelets) = (names(hosts), names(kubelets));
    let plan = renewal(&RenewalInputs {
        cluster,
        hosts: BTreeMap::new(),
        certificates: Certificates::placeholder(cluster),
        selected: &selected,
        id: "2026-01-31T12:00:00Z",
        has_expired: expired,
        expired_kubelets,
        named: BTreeMap::new(),
        has_super_admin: true,
    });
    in_a_chain(&plan.unwrap().plan)
}

/// Returns `TASK@HOST: STEP` for each step, and checks that each task begins after the one before.
pub(crate) fn in_a_chain(plan: &Plan) -> Vec<String> {
    kubexm_engine::plan::graph::Graph::new(plan).unwrap();
    for pair in plan.tasks.windows(2) {
        assert_eq!(pair[1].after, [pair[0].id()]);
    }
    let steps = plan.tasks.iter().flat_map(|task| {
        let steps = task.steps.iter();
        steps.map(move |step| format!("{}@{}: {}", task.name, task.host, step.id()))
    });
    steps.collect()
}

/// Returns the place of a step.
pub(crate) fn at(steps: &[String], step: &str) -> usize {
    let found = steps.iter().position(|found| found == step);
    found.unwrap_or_else(|| panic!("{step} is not in {steps:#?}"))
}

const ALL: [&str; 4] = ["node1", "node2", "node3", "node4"];

fn tasks(steps: &[String]) -> Vec<&str> {
    let mut tasks: Vec<&str> = steps
        .iter()
        .filter_map(|step| step.split(": ").next())
        .collect();
    tasks.dedup();
    tasks
}

#[test]
fn control_planes_of_kubeadm_are_renewed_one_after_another() {
    let steps = steps(&cluster("", ""), &ALL, false, &[]);
    let expected = ["renew@node1", "renew@node2", "renew@node3", "cluster@node1"];
    assert_eq!(tasks(&steps), expected);
    let of_node2: Vec<&str> = steps
        .iter()
        .filter_map(|step| step.strip_prefix("renew@node2: "))
        .collect();
    insta::assert_snapshot!(of_node2.join("\n"), @"
    kubeadm certificate files
    wait kubeadm certificate API server
    kubeadm certificate controller manager
    wait kubeadm certificate controller manager
    kubeadm certificate scheduler
    wait kubeadm certificate scheduler
    wait Wait until the control plane of node2 is healthy
    ");
}

/// Programs with expired certificates are healthy only after the others have new ones, too.
#[test]
fn all_hosts_get_new_files_before_programs_must_be_healthy_if_certificates_have_expired() {
    for (kubernetes, sections) in [("", ""), ("type: systemd", "etcd: {type: systemd}")] {
        let steps = steps(&cluster(kubernetes, sections), &ALL, true, &[]);
        let last = steps
            .iter()
            .rposition(|step| step.starts_with("files@"))
            .unwrap();
        let first = steps
            .iter()
            .position(|step| step.starts_with("renew@"))
            .unwrap();
        assert!(last < first, "{steps:#?}");
        for host in ["node1", "node2", "node3"] {
            assert!(
                steps
                    .iter()
                    .any(|step| step.starts_with(&format!("files@{host}")))
            );
        }
        let waits = steps[..=last]
            .iter()
            .filter(|step| step.contains(": wait") || step.contains(": unit"));
        assert_eq!(waits.count(), 0, "{steps:#?}");
    }
}

#[test]
fn kubelet_with_an_expired_certificate_gets_one_from_the_first_control_plane() {
    let steps = steps(&cluster("", ""), &["node4"], false, &["node4"]);
    assert_eq!(
        steps,
        [
            "kubelet-credentials@node1: provide certificates.kubelets",
            "renew@node4: kubelet certificates",
            "renew@node4: wait Wait until the kubelet has a new certificate",
            "renew@node4: kubelet certificates recorded",
            "cluster@node1: kubelet serving certificates"
        ]
    );
}

/// A renewal without a bundle writes only what it renews.
#[test]
fn units_restart_after_their_certificates_are_written() {
    let cluster = cluster("type: systemd", "etcd: {type: systemd}");
    let steps = steps(&cluster, &ALL, false, &[]);
    let expected = [
        "renew@node1",
        "renew@node2",
        "renew@node3",
        "renew@node4",
        "cluster@node1",
    ];
    assert_eq!(tasks(&steps), expected);
    let at = |step: &str| steps.iter().position(|found| found == step);
    let file = at("renew@node2: file /etc/kubernetes/pki/apiserver.crt");
    let unit = at("renew@node2: unit kube-apiserver.service");
    assert!(file.is_some() && file < unit, "{steps:#?}");
    assert!(at("renew@node4: file /etc/kubernetes/kube-proxy.conf").is_some());
    let other = |step: &&String| step.contains(".yaml") || step.contains("/etc/systemd");
    assert_eq!(steps.iter().find(other), None, "{steps:#?}");
}
/// kube-vip reads its kubeconfig only when it starts, and the former certificate in it ends.
#[test]
fn kube_vip_restarts_with_its_new_certificate() {
    let steps_of = |kubernetes, sections, expired| {
        let cluster = with_balancer(kubernetes, sections, "{type: kube-vip}");
        steps(&cluster, &ALL, expired, &[])
    };
    let kubeadm = steps_of("", "", false);
    let (files, restart) = (
        "renew@node2: kubeadm certificate files",
        "renew@node2: load balancer pod",
    );
    assert!(at(&kubeadm, files) < at(&kubeadm, restart));
    let leaves = "renew@node2: endpoint leaves";
    assert!(at(&kubeadm, leaves) < at(&kubeadm, files));
    let returns = "renew@node2: endpoint returns";
    let healthy = "renew@node2: wait Wait until the control plane of node2 is healthy";
    assert!(at(&kubeadm, healthy) < at(&kubeadm, returns));
    assert!(at(&kubeadm, returns) < at(&kubeadm, restart));
    let (file, manifest) = (
        "renew@node2: file /etc/kubernetes/kube-vip.conf",
        "renew@node2: file /etc/kubernetes/manifests/kube-vip.yaml",
    );
    for expired in [false, true] {
        let units = steps_of("type: systemd", "etcd: {type: systemd}", expired);
        assert!(at(&units, file) < at(&units, manifest));
        // The API servers of a cluster with expired certificates answer none.
        match units.iter().position(|step| step == leaves) {
            Some(leaves) => {
                assert!(!expired && leaves < at(&units, file));
                assert!(at(&units, returns) < at(&units, manifest));
            }
            None => assert!(expired && !units.iter().any(|step| step == returns)),
        }
        let early = units
            .iter()
            .find(|step| step.starts_with("files@") && step.contains("manifests"));
        assert_eq!(early, None);
    }
}
