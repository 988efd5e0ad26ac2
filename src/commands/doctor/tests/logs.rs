//! What logs lead to.

use super::*;
use crate::status::example::cluster_of_units;

#[test]
fn last_words_of_a_program_that_ended_are_its_cause() {
    let flag = "\"command failed\" err=\"failed to parse kubelet flag: unknown flag: --node-ip\"";
    let report = with_logs(vec![entry("kubelet", 5, flag)], &["kubelet"], API);
    assert_eq!(causes(&report), ["kubelet-settings"]);
    let found = report
        .causes()
        .find(|found| found.check == "kubelet-settings")
        .unwrap();
    let file = "/var/lib/kubelet/kubeadm-flags.env";
    assert!(found.commands[0].contains(file), "{:?}", found.commands);
    // The program runs again, or ended for another reason since.
    for (entries, unhealthy) in [
        (vec![entry("kubelet", 5, flag)], &[][..]),
        (
            vec![entry("kubelet", 95, flag), entry("kubelet", 5, "other")],
            &["kubelet"],
        ),
        (vec![entry("default/kubelet-1", 5, flag)], &["kubelet"]),
        // A kubeconfig whose certificate is missing has a check of its own.
        (
            vec![entry(
                "kubelet",
                5,
                "invalid configuration: [unable to read client-cert",
            )],
            &["kubelet"],
        ),
    ] {
        let report = with_logs(entries, unhealthy, API);
        assert_eq!(causes(&report), [""; 0]);
    }
}

#[test]
fn slow_disk_of_etcd_is_several_slow_writes() {
    let slow = |ago| {
        entry(
            "kube-system/etcd-node2",
            ago,
            "{\"level\":\"warn\",\"msg\":\"slow fdatasync\",\"took\":\"1.2s\"}",
        )
    };
    let report = with_logs(vec![slow(90), slow(50), slow(9)], &[], API);
    assert_eq!(causes(&report), ["etcd-disk"]);
    let report = with_logs(vec![slow(50), slow(9)], &[], API);
    assert_eq!(causes(&report), [""; 0]);
}

#[test]
fn wrong_checksums_are_found_in_the_kernel_log() {
    let report = with_logs(
        vec![entry(
            "kernel",
            5,
            "UDP: bad checksum. From 10.0.0.1:1 to 10.0.0.2:8472 ulen 74",
        )],
        &[],
        API,
    );
    assert_eq!(causes(&report), ["service-network"]);
}

#[test]
fn member_that_lost_its_data_is_replaced_as_its_deployment_needs() {
    let lost = "{\"level\":\"panic\",\"msg\":\"tocommit(9) is out of range [lastIndex(0)]\"}";
    for (cluster, command) in [
        (cluster(""), "kubexm node replace node2 --bundle BUNDLE"),
        (cluster_of_units(), "kubexm install BUNDLE"),
    ] {
        let mut seen = seen(HOST, RUNTIME, API);
        seen.cluster.etcd = cluster.etcd;
        let entries = vec![entry("kube-system/etcd-node2", 5, lost)];
        seen.logs.insert(name("node2"), Logs { now: NOW, entries });
        seen.report.hosts[1].unhealthy = vec!["etcd".to_owned()];
        let report = judge(&seen);
        let found = report
            .findings
            .iter()
            .find(|found| found.check == "etcd-data")
            .unwrap();
        assert!(
            found.commands[1].starts_with(command),
            "{:?}",
            found.commands
        );
    }
}
