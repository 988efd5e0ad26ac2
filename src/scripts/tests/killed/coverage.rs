//! Each script is killed by a test, or a reason states why this is not needed.

use std::collections::BTreeSet;

use super::{
    backup, cluster, covered_by, files, kubeadm, nodes, rotation, settings, system, upgrade,
};
use crate::ALL;

/// All tests that kill scripts.
const TESTS: &[fn()] = &[
    files::files,
    files::files_that_existed,
    files::blocks_of_files,
    files::directories_and_markers,
    files::installed_files,
    files::receipts,
    files::registry_content,
    files::input,
    system::packages_of_apt,
    system::packages_of_dnf,
    system::swap_and_services,
    system::users_of_services,
    system::load_balancer,
    system::network_leftovers,
    system::host_lock,
    system::long_commands,
    settings::host_settings,
    settings::kernel_settings,
    settings::hooks,
    cluster::etcd_members,
    cluster::snapshots,
    cluster::images,
    cluster::objects,
    cluster::secrets,
    kubeadm::init,
    kubeadm::join,
    kubeadm::failed_init,
    kubeadm::settings,
    kubeadm::settings_of_the_cluster,
    kubeadm::renewed_certificates,
    kubeadm::restarted_programs,
    upgrade::upgraded_nodes,
    upgrade::ended_pods,
    nodes::removed_nodes,
    rotation::rotated_authorities,
    backup::restores,
    backup::pod_subnets,
    backup::authorities,
];

/// Scripts that no test kills, with the reason.
const NOT_KILLED: &[(&str, &[&str])] = &[
    (
        "prints or compares something, and changes nothing",
        &[
            "dns/answers.sh",
            "dns/corefile-check.sh",
            "dns/diagnosis.sh",
            "dns/node-local.sh",
            "doctor/host.sh",
            "doctor/logs.sh",
            "doctor/runtime.sh",
            "doctor/support-api.sh",
            "doctor/support.sh",
            "doctor/ways.sh",
            "etcd/restarts.sh",
            "host/facts.sh",
            "preflight/checks.sh",
            "kubeadm/etcd-ca.sh",
            "kubeadm/kube-proxy.sh",
            "kubeadm/upgrade-space.sh",
            "kubernetes/api-server-ready.sh",
            "kubernetes/deprecated-requests.sh",
            "kubernetes/encryption-keys.sh",
            "kubernetes/endpoint.sh",
            "kubernetes/last-log.sh",
            "kubernetes/get.sh",
            "kubernetes/handshakes.sh",
            "kubernetes/live-settings.sh",
            "kubernetes/nodes-diagnosis.sh",
            "kubernetes/resources.sh",
            "kubernetes/same-ca.sh",
            "kubernetes/serving-look.sh",
            "kubernetes/survey.sh",
            "kubernetes/versions.sh",
            "load-balancer/check-proxy.sh",
            "load-balancer/interface.sh",
            "load-balancer/kube-vip-settled.sh",
            "load-balancer/pod-diagnosis.sh",
            "markers/check.sh",
            "os/port-open.sh",
            "packages/apt-check.sh",
            "packages/dnf-check.sh",
            "registry/answers.sh",
            "registry/blobs.sh",
            "registry/list.sh",
            "registry/node-images.sh",
            "registry/part.sh",
            "registry/release-images.sh",
            "registry/sound.sh",
            "runtime/containerd-survey.sh",
            "runtime/isulad-installed.sh",
            "status/host.sh",
            "steps/block-state.sh",
            "steps/file-look.sh",
            "steps/former-files.sh",
            "steps/install-look.sh",
            "steps/missing-paths.sh",
            "steps/read-files.sh",
            "systemd/healthy.sh",
            "systemd/journal.sh",
            "systemd/logs.sh",
        ],
    ),
    (
        "issues kubeconfigs and prints them; a killed one leaves a file without secrets in /run",
        &["kubeadm/kubeconfig.sh"],
    ),
    (
        "only waits or sends a signal, and leaves nothing",
        &[
            "host/end-group.sh",
            "steps/flush.sh",
            "steps/run-to-completion-wait.sh",
        ],
    ),
    (
        "replaces itself by the command; tests/integration and src/host kill such commands",
        &["host/sandbox.sh", "host/supervise.sh"],
    ),
    (
        "calls etcdctl once, and the crate kubexm-etcd compares the members after a change that failed",
        &["etcd/ask.sh"],
    ),
    (
        "is a program for administrators, which kubexm does not run",
        &["etcd/etcdctl.sh"],
    ),
    (
        "runs before each start of a unit, and sets the owner of all files again",
        &["etcd/prepare.sh"],
    ),
    (
        "changes its own unit and directory only; a later run and a reset remove both",
        &["kubernetes/conformance.sh"],
    ),
    (
        "changes no host; Kubernetes removes the request for a certificate that a killed run left",
        &["kubernetes/create.sh"],
    ),
    (
        "only stops programs and restarts the kubelet; systemd starts it if the script is killed between",
        &["kubernetes/kubelet-restart.sh"],
    ),
    (
        "only stops containers, which the kubelet starts, and processes, which a timer lets go on",
        &["load-balancer/address-leave.sh"],
    ),
    (
        "only stops the API server; systemd or the kubelet starts it if the script is killed between",
        &["etcd/clients-end.sh"],
    ),
    (
        "stores one object in the cluster, which the next run removes first",
        &["kubernetes/restored.sh"],
    ),
    (
        "runs helm, which records its revision in the cluster; a later run replaces a revision that is pending",
        &["applications/release.sh"],
    ),
    (
        "changes no host; a restart of a workload that a killed run began goes on in the cluster",
        &["kubernetes/rollout.sh"],
    ),
    (
        "runs as a unit that systemd restarts, and sets all routes again in each round",
        &["network/pod-routes.sh"],
    ),
];

#[test]
fn every_script_is_killed_or_has_a_reason() {
    let killed = covered_by(TESTS);
    let excepted = NOT_KILLED
        .iter()
        .flat_map(|(_, names)| names.iter().copied());
    let excepted: BTreeSet<&str> = excepted.collect();
    let both: Vec<&&str> = killed.intersection(&excepted).collect();
    assert!(
        both.is_empty(),
        "are killed, so they need no reason: {both:?}"
    );
    let all: BTreeSet<&str> = ALL.iter().map(|script| script.name).collect();
    let known: BTreeSet<&str> = killed.union(&excepted).copied().collect();
    let missing: Vec<&&str> = all.difference(&known).collect();
    assert!(missing.is_empty(), "no test kills these: {missing:?}");
    let unknown: Vec<&&str> = excepted.difference(&all).collect();
    assert!(unknown.is_empty(), "these do not exist: {unknown:?}");
}
