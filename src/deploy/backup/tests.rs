//! Tests of the plans of a restore.

use super::*;
use kubexm_config::example::cluster_of;
use time::OffsetDateTime;

fn steps((kubernetes, sections): (&str, &str), phase: Phase) -> Vec<String> {
    let endpoint =
        "highAvailability: {type: external}\ncontrolPlaneEndpoint: {address: 192.0.2.99}";
    let roles = "control-plane: [c1, c2], worker: [w1]";
    let cluster = cluster_of(roles, kubernetes, &format!("{endpoint}\n{sections}"));
    let plan = restore(
        &RestoreInputs {
            cluster: &cluster,
            id: "20260131T093000Z",
            absent: &BTreeSet::new(),
            new_hosts: None,
            bump: LEAST_BUMP,
            cas: None,
        },
        phase,
    )
    .unwrap();
    kubexm_engine::plan::graph::Graph::new(&plan).unwrap();
    let steps = plan.tasks.iter().flat_map(|task| {
        let after: Vec<&str> = task.after.iter().map(|id| id.0.as_str()).collect();
        let steps = task.steps.iter();
        steps.map(move |step| {
            format!(
                "{}@{} [{}]: {}",
                task.name,
                task.host,
                after.join(" "),
                step.id()
            )
        })
    });
    steps.collect()
}

const KUBEADM: (&str, &str) = ("", "");
const UNITS: (&str, &str) = ("type: systemd", "etcd: {type: systemd}");

#[test]
fn data_changes_only_after_everything_has_stopped() {
    for sections in [KUBEADM, UNITS] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(steps(sections, Phase::Replace).join("\n"), @r"
            stop@c1 []: restore stop
            stop@c2 []: restore stop
            stop-etcd@c1 [restore/stop@c1 restore/stop@c2]: restore etcd stopped
            stop-etcd@c2 [restore/stop@c1 restore/stop@c2]: restore etcd stopped
            replace@c1 [restore/stop-etcd@c1 restore/stop-etcd@c2]: restore replace
            replace@c2 [restore/stop-etcd@c1 restore/stop-etcd@c2]: restore replace
            ");
        }
    }
}

#[test]
fn control_planes_start_one_after_another() {
    insta::assert_snapshot!(steps(KUBEADM, Phase::ControlPlanes).join("\n"), @r"
    start@c1 []: restore start api-server
    start@c1 []: wait Wait until the API server of c1 is ready
    start@c1 []: restore start
    start@c1 []: wait Wait until the control plane of c1 is healthy
    start@c2 [restore/start@c1]: restore start api-server
    start@c2 [restore/start@c1]: wait Wait until the API server of c2 is ready
    start@c2 [restore/start@c1]: restore start
    start@c2 [restore/start@c1]: wait Wait until the control plane of c2 is healthy
    ");
}

#[test]
fn kubelets_of_all_nodes_restart_and_the_pod_network_follows() {
    insta::assert_snapshot!(steps(UNITS, Phase::Nodes).join("\n"), @r"
    objects@c1 []: present addresses
    node@c1 [restore/objects@c1]: restore restart
    node@c2 [restore/objects@c1]: restore restart
    node@w1 [restore/objects@c1]: restore restart
    ready@c1 [restore/objects@c1 restore/node@c1 restore/node@c2 restore/node@w1]: wait Wait until every node is Ready
    ");
    let of_kubeadm = steps(KUBEADM, Phase::Nodes);
    assert_eq!(of_kubeadm[0], "objects@c1 []: stored endpoint");
    let bridge = format!("{}\nnetwork: {{plugin: bridge}}", UNITS.1);
    insta::assert_snapshot!(steps((UNITS.0, &bridge), Phase::PodNetwork).join("\n"), @r"
    subnets@c1 []: wait Wait until every node has a pod subnet
    subnets@c1 []: provide network.pod_subnets
    pod-network@c1 [restore/subnets@c1]: file /etc/kubexm/pod-routes.sh
    pod-network@c1 [restore/subnets@c1]: file /etc/kubexm/pod-routes.conf
    pod-network@c1 [restore/subnets@c1]: file /etc/systemd/system/kubexm-pod-routes.service
    pod-network@c1 [restore/subnets@c1]: unit kubexm-pod-routes.service
    pod-network@c1 [restore/subnets@c1]: file /etc/cni/net.d/10-kubexm-bridge.conflist
    pod-network@c1 [restore/subnets@c1]: pod bridge
    pod-network@c2 [restore/subnets@c1]: file /etc/kubexm/pod-routes.sh
    pod-network@c2 [restore/subnets@c1]: file /etc/kubexm/pod-routes.conf
    pod-network@c2 [restore/subnets@c1]: file /etc/systemd/system/kubexm-pod-routes.service
    pod-network@c2 [restore/subnets@c1]: unit kubexm-pod-routes.service
    pod-network@c2 [restore/subnets@c1]: file /etc/cni/net.d/10-kubexm-bridge.conflist
    pod-network@c2 [restore/subnets@c1]: pod bridge
    pod-network@w1 [restore/subnets@c1]: file /etc/kubexm/pod-routes.sh
    pod-network@w1 [restore/subnets@c1]: file /etc/kubexm/pod-routes.conf
    pod-network@w1 [restore/subnets@c1]: file /etc/systemd/system/kubexm-pod-routes.service
    pod-network@w1 [restore/subnets@c1]: unit kubexm-pod-routes.service
    pod-network@w1 [restore/subnets@c1]: file /etc/cni/net.d/10-kubexm-bridge.conflist
    pod-network@w1 [restore/subnets@c1]: pod bridge
    ");
    insta::assert_snapshot!(steps(KUBEADM, Phase::PodNetwork).join("\n"), @r"
    subnets@c1 []: wait Wait until every node has a pod subnet
    subnets@c1 []: provide network.pod_subnets
    pod-network@c1 [restore/subnets@c1]: restore flannel
    pod-network@c1 [restore/subnets@c1]: wait Wait until flannel follows the pod subnet of the node
    pod-network@c1 [restore/subnets@c1]: restore pod-network
    pod-network@c2 [restore/subnets@c1]: restore flannel
    pod-network@c2 [restore/subnets@c1]: wait Wait until flannel follows the pod subnet of the node
    pod-network@c2 [restore/subnets@c1]: restore pod-network
    pod-network@w1 [restore/subnets@c1]: restore flannel
    pod-network@w1 [restore/subnets@c1]: wait Wait until flannel follows the pod subnet of the node
    pod-network@w1 [restore/subnets@c1]: restore pod-network
    ");
    let cilium = ("", "network: {plugin: cilium}");
    assert_eq!(steps(cilium, Phase::PodNetwork).len(), 0);
}

#[test]
fn each_phase_has_steps_of_all_members() {
    assert_eq!(steps(UNITS, Phase::Tidy).len(), 3);
    assert_eq!(steps(UNITS, Phase::Prepare).len(), 2);
    assert_eq!(steps(UNITS, Phase::Etcd).len(), 4);
}

/// A client that has seen a larger revision would see no change until etcd reaches it.
#[test]
fn later_restore_of_the_same_snapshot_has_larger_revisions() {
    let target = |seconds| target_revision(OffsetDateTime::from_unix_timestamp(seconds).unwrap());
    let begun = 1_800_000_000;
    let reached = |begun, revision| revision + revision_bump(target(begun), revision);
    assert_eq!(reached(begun, 1263), 1_800_000_000_000);
    assert!(reached(begun + 60, 1263) > reached(begun, 1263) + 50_000);
    assert!(reached(begun + 60, 1263) > reached(begun, 900_000_000));
    // The clock of this machine is wrong, and the record of an earlier version.
    assert_eq!(revision_bump(target(-1), 1263), LEAST_BUMP);
    assert_eq!(revision_bump(0, 1263), LEAST_BUMP);
}
