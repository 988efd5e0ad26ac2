//! What logs lead to.

use super::*;

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
