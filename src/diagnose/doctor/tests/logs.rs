//! What logs lead to.

use super::*;
use kubexm_session::example::cluster_of_units;

#[test]
fn last_words_of_a_program_that_ended_are_its_cause() {
    let flag = "\"command failed\" err=\"failed to parse kubelet flag: unknown flag: --node-ip\"";
    let report = with_logs(vec![entry("kubelet", 5, flag)], &["kubelet"]);
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
        let report = with_logs(entries, unhealthy);
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
    let report = with_logs(vec![slow(90), slow(50), slow(9)], &[]);
    assert_eq!(causes(&report), ["etcd-disk"]);
    let report = with_logs(vec![slow(50), slow(9)], &[]);
    assert_eq!(causes(&report), [""; 0]);
}

/// Returns what several messages of the kernel about a packet lead to.
fn with_checksums(host: &str, count: i64, port: u16) -> Vec<crate::doctor::Finding> {
    let message = format!("UDP: bad checksum. From 192.0.2.11:1 to 192.0.2.12:{port} ulen 74");
    let mut seen = seen(host, RUNTIME);
    let entries = (0..count).map(|ago| entry("kernel", count - ago, &message));
    let entries = entries.collect();
    seen.logs.insert(name("node2"), Logs { now: NOW, entries });
    let report = judge(&seen);
    let found = report.causes();
    let found = found.filter(|found| found.check == "service-network");
    found.cloned().collect()
}

#[test]
fn wrong_checksums_of_the_pod_network_are_those_of_the_sender() {
    let found = with_checksums(HOST, 3, 8472);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].commands,
        [
            "kubexm exec -f cluster.yaml --host node1 -- ethtool -K flannel.1 tx-checksum-ip-generic off"
        ]
    );
    // A single packet, those of other programs, and hosts without a VXLAN device.
    assert_eq!(with_checksums(HOST, 1, 8472), []);
    assert_eq!(with_checksums(HOST, 3, 53), []);
    let without = changed(HOST, "overlay=", "ntp=yes");
    assert_eq!(with_checksums(&without, 3, 8472), []);
}

/// Returns the check and the only command for an entry.
fn command(source: &str, message: &str) -> (&'static str, String) {
    command_of(&with_logs(vec![entry(source, 5, message)], &[]))
}

fn command_of(report: &DoctorReport) -> (&'static str, String) {
    let found = report.causes();
    let found = found.filter(|found| !["pods", "join-information"].contains(&found.check));
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), 1, "{found:?}");
    (found[0].check, found[0].commands.concat())
}

#[test]
fn each_limit_of_the_kernel_has_its_own_command() {
    let set =
        |words: &str| format!("kubexm exec -f cluster.yaml --host node2 -- sysctl -w {words}");
    for (source, message, words) in [
        (
            "kernel",
            "nf_conntrack: nf_conntrack: table full, dropping packet",
            "net.netfilter.nf_conntrack_max=131072",
        ),
        (
            "kubelet",
            "failed to create fsnotify watcher: too many open files",
            "fs.inotify.max_user_instances=8192",
        ),
        (
            "kubelet",
            "inotify_add_watch /sys/fs/cgroup/x: no space left on device",
            "fs.inotify.max_user_watches=524288",
        ),
    ] {
        assert_eq!(command(source, message), ("kernel-limits", set(words)));
    }
    let full = command("kubelet", "write /x: no space left on device");
    assert_eq!(full.0, "disk-space");
    // Two limits are two findings.
    let entries = ["too many open files", "inotify: no space left on device"];
    let entries = entries.map(|message| entry("kubelet", 5, message)).to_vec();
    let report = with_logs(entries, &[]);
    assert_eq!(causes(&report), ["kernel-limits", "kernel-limits"]);
}

#[test]
fn addresses_of_pods_that_run_are_never_taken_away() {
    for message in [
        "failed to allocate for range 0: no IP addresses available in range set: 10.244.1.1-10.244.1.254",
        "failed to set bridge addr: \"cni0\" already has an IP address different from 10.244.1.1/24",
    ] {
        let mut seen = seen_with(|api| {
            api.pods = pod("web-1", "2026-01-02T03:00:00Z", json!({"phase": "Pending"}));
        });
        let entries = vec![entry("containerd", 5, message)];
        seen.logs.insert(name("node2"), Logs { now: NOW, entries });
        let (check, command) = command_of(&judge(&seen));
        assert_eq!(check, "cni-leftovers");
        for word in ["delete", "rm ", "drain"] {
            assert!(!command.contains(word), "{command}");
        }
    }
}

#[test]
fn member_that_lost_its_data_is_replaced_as_its_deployment_needs() {
    let lost = "{\"level\":\"panic\",\"msg\":\"tocommit(9) is out of range [lastIndex(0)]\"}";
    for (cluster, command) in [
        (cluster(""), "kubexm node replace node2 --bundle BUNDLE"),
        (cluster_of_units(), "kubexm install --bundle BUNDLE"),
    ] {
        let mut seen = seen(HOST, RUNTIME);
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
