//! Scripts of an upgrade. The programs are stand-ins.

use super::machine::Machine;
use crate::kubeadm::{UPGRADE, UPGRADE_SPACE};
use crate::kubernetes::{DEPRECATED_REQUESTS, KUBELET_RESTART, LIVE_SETTINGS};

/// The arguments for the first control plane.
pub(super) const FIRST: [&str; 5] = [
    "role=first",
    "version=1.36.3",
    "patches=/etc/kubexm/patches",
    "ignored=A,B",
    "config=kind: x\n",
];

/// Adds a kubeadm that keeps what it uploads and upgrades.
pub(super) fn with_kubeadm(machine: &Machine) {
    machine.write("/var/lib/kubexm/cluster", "");
    machine.fake(
        "kubeadm",
        "at=/usr/local/bin\n\
         case $* in\n\
         'init phase upload-config kubeadm --config '*) cp \"$6\" $at/uploaded ;;\n\
         'upgrade '*)\n\
         mkdir -p /etc/kubernetes/tmp/kubeadm-backup-etcd-1/etcd /etc/kubernetes/tmp/kubeadm-backup-manifests-1\n\
         [ ! -e $at/broken ] || { echo 'no quorum' >&2; exit 1; }; : >$at/upgraded ;;\n\
         *) exit 3 ;;\n\
         esac",
    );
}

#[test]
fn kubeadm_gets_the_settings_of_the_cluster_file_before_it_upgrades() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        assert_eq!(machine.run(UPGRADE.verb("check"), &FIRST).status, 1);
        machine.done(UPGRADE.verb("apply"), &FIRST);
        assert_eq!(
            machine.calls(),
            [
                "kubeadm init phase upload-config kubeadm --config /run/kubexm/upgrade.yaml",
                "kubeadm upgrade apply v1.36.3 --yes --patches=/etc/kubexm/patches --ignore-preflight-errors=A,B",
            ]
        );
        assert_eq!(machine.read("/root/fake/uploaded"), "kind: x\n");
        machine.done(UPGRADE.verb("check"), &FIRST);
        assert!(!machine.has("/run/kubexm/upgrade.yaml"));
        assert!(!machine.has("/etc/kubernetes/tmp/kubeadm-backup-etcd-1"));
        assert!(machine.has("/etc/kubernetes/tmp/kubeadm-backup-manifests-1"));
        let other = ["role=other", "version=1.36.4"];
        assert_eq!(machine.run(UPGRADE.verb("check"), &other).status, 1);
        machine.done(UPGRADE.verb("apply"), &other);
        assert_eq!(machine.calls(), ["kubeadm upgrade node"]);
        assert_eq!(machine.read("/var/lib/kubexm/upgraded"), "1.36.4\n");
    });
}

/// kubeadm waits 15 seconds for a pod before its first change.
#[test]
fn kubeadm_is_asked_again_if_its_pod_takes_longer() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.fake("sleep", "");
        machine.fake(
            "kubeadm",
            "echo >>/usr/local/bin/tries\n\
             [ $(wc -l </usr/local/bin/tries) -gt $(cat /usr/local/bin/failures) ] || {\n\
             echo '[ERROR CreateJob]: Job \"upgrade-health-check-1\" did not complete in 15s' >&2; exit 1; }",
        );
        let other = ["role=other", "version=1.36.3"];
        machine.write("/root/fake/failures", "2");
        machine.done(UPGRADE.verb("apply"), &other);
        assert_eq!(machine.calls().len(), 5, "three runs and two pauses");
        machine.write("/root/fake/failures", "9");
        let next = ["role=other", "version=1.36.4"];
        let ended = machine.run(UPGRADE.verb("apply"), &next);
        assert!(ended.status == 1 && ended.complained.contains("15s\nhint: "));
    });
}

#[test]
fn upgrade_that_fails_is_repeated() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/root/fake/broken", "");
        let ended = machine.run(UPGRADE.verb("apply"), &FIRST);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.starts_with("no quorum\nhint: "),
            "{}",
            ended.complained
        );
        assert_eq!(machine.run(UPGRADE.verb("check"), &FIRST).status, 1);
    });
}

#[test]
fn kubelet_restarts_only_if_its_program_was_replaced() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "case $* in show*) echo 42 ;; esac");
        machine.fake("readlink", "cat /usr/local/bin/program");
        machine.write("/root/fake/program", "/usr/local/bin/kubelet (deleted)\n");
        let check = || machine.run(KUBELET_RESTART.verb("check"), &["version=1.36.3"]);
        assert_eq!(check().printed, "it does not run the program on disk\n");
        machine.done(KUBELET_RESTART.verb("apply"), &["version=1.36.3"]);
        let restart = "systemctl restart kubelet.service".to_owned();
        assert!(machine.calls().contains(&restart));
        machine.write("/root/fake/program", "/usr/local/bin/kubelet\n");
        assert_eq!(check().status, 0);
    });
}

/// Returns the calls that start or stop something, without that of the timer.
fn changes(machine: &Machine) -> Vec<String> {
    let mut calls = machine.calls();
    calls.retain(|call| {
        (call.contains(" stop ") || call.contains(" start "))
            && call != "systemctl stop kubexm-kubelet-start.timer"
    });
    calls
}

#[test]
fn kubelet_that_an_interrupted_run_has_stopped_starts_again() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "systemctl",
            "case $* in show*) cat /usr/local/bin/pid ;; esac",
        );
        machine.fake("crictl", "case $* in *etcd*) echo e ;; esac");
        let arguments = ["version=1.36.3"];
        let started = || machine.run(KUBELET_RESTART.verb("started"), &arguments);
        machine.write("/root/fake/pid", "42\n");
        assert_eq!(started().status, 0);
        machine.write("/root/fake/pid", "0\n");
        let found = started();
        assert_eq!(
            (found.status, found.printed.as_str()),
            (1, "the kubelet is stopped\n")
        );
        machine.calls();
        machine.done(KUBELET_RESTART.verb("start"), &arguments);
        // The new kubelet would kill what the interrupted run has not stopped.
        assert_eq!(
            changes(machine),
            [
                "crictl stop --timeout 30 e",
                "systemctl start kubelet.service"
            ]
        );
    });
}

#[test]
fn api_server_and_etcd_end_before_a_kubelet_of_another_minor_version_starts() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "case $* in show*) echo 0 ;; esac");
        machine.fake(
            "crictl",
            "case $* in\n\
             *apiserver*) [ -e /usr/local/bin/ended ] || echo a ;;\n\
             *etcd*) [ -e /usr/local/bin/ended ] || echo e ;;\n\
             'stop --timeout 30 e') : >/usr/local/bin/ended ;;\n\
             esac",
        );
        let arguments = ["version=1.36.3"];
        let stopped = || machine.run(KUBELET_RESTART.verb("stopped"), &arguments);
        let found = stopped();
        assert_eq!(
            (found.status, found.printed.as_str()),
            (1, "programs run that the new kubelet would kill\n")
        );
        machine.fake("systemd-run", "");
        machine.calls();
        machine.done(KUBELET_RESTART.verb("stop"), &arguments);
        assert_eq!(
            changes(machine),
            [
                "systemd-run --quiet --collect --unit=kubexm-kubelet-start --on-active=120 systemctl start kubelet.service",
                "systemctl stop kubelet.service",
                "crictl stop --timeout 30 a",
                "crictl stop --timeout 30 e"
            ]
        );
        assert_eq!(stopped().status, 0);
        // A worker has neither program.
        machine.fake("crictl", "");
        assert_eq!(stopped().status, 0);
    });
}

#[test]
fn deprecated_requests_of_all_api_servers_are_printed() {
    // The third API server does not answer.
    const SERVERS: [&str; 3] = [
        "https://192.0.2.11:6443",
        "https://192.0.2.12:6443",
        "https://192.0.2.13:6443",
    ];
    Machine::with_each_shell(|machine| {
        let metric = "apiserver_requested_deprecated_apis{group=\"g.io\"} 1\n";
        machine.write("/root/metrics", &format!("# {metric}{metric}other 1\n"));
        machine.fake(
            "kubectl",
            "case $* in\n\
             *https://192.0.2.11:6443*metrics*) echo 'other 1'; [ ! -e /root/broken ] ;;\n\
             *https://192.0.2.12:6443*metrics*) cat /root/metrics; [ ! -e /root/broken ] ;;\n\
             *) exit 1 ;;\n\
             esac",
        );
        assert_eq!(machine.done(DEPRECATED_REQUESTS, &SERVERS), metric);
        machine.write("/root/broken", "");
        let ended = machine.run(DEPRECATED_REQUESTS, &SERVERS);
        assert_eq!((ended.status, ended.printed.as_str()), (75, ""));
    });
}

#[test]
fn room_for_the_copy_of_etcd_is_known() {
    Machine::with_each_shell(|machine| {
        machine.write("/var/lib/etcd/member/snap/db", &"x".repeat(100_000));
        machine.write("/etc/kubernetes/admin.conf", "");
        let printed = machine.done(UPGRADE_SPACE, &["/var/lib/etcd"]);
        let (data, free) = printed.trim().split_once(' ').unwrap();
        assert!(data.parse::<u64>().unwrap() >= 97, "{printed}");
        assert!(free.parse::<u64>().unwrap() > 0, "{printed}");
    });
}

/// An interrupted upgrade has written a file again, and the kubelet still runs with the former one.
#[test]
fn flag_of_a_file_that_has_changed_ends_with_its_program() {
    const FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";
    Machine::with_each_shell(|machine| {
        machine.write(FLAGS, "KUBELET_KUBEADM_ARGS=\"--v=2\"\n");
        // The program of the run before.
        let end = "for process in /proc/[0-9]*; do\nname=''; read -r name <\"$process/comm\" || :\n\
                   [ \"$name\" != kubelet ] || ! grep -qs kubexm-former \"$process/cmdline\" || kill -KILL \"${process#/proc/}\"\n\
                   done 2>/dev/null\n";
        let source = |changed: &str| {
            let before = format!(
                "{end}touch -d '{changed}' {FLAGS}\nrm -f /root/kubelet\ncp \"$(command -v bash)\" /root/kubelet\nmkfifo /root/$$\n\
                 /root/kubelet -c 'read -r -t 60 <>\"$0\" || :' /root/$$ --kubexm-former=1 </dev/null >/dev/null 2>&1 &\n\
                 until grep -qs kubexm-former /proc/$!/cmdline; do sleep 0.1; done"
            );
            let ended = machine.run_after(&before, LIVE_SETTINGS, &[], "");
            let lines = ended.printed.lines().map(str::to_owned);
            let mut own = lines.filter(|line| line.ends_with("--kubexm-former=1"));
            own.next()
                .unwrap_or_else(|| panic!("{} {}", ended.printed, ended.complained))
        };
        let line = |source: &str| format!("flag\tkubelet\t{source}\t--kubexm-former=1");
        assert_eq!(source("1 hour ago"), line("unknown"));
        assert_eq!(source("1 hour"), line("rendered"));
        machine.run_after(end, LIVE_SETTINGS, &[], "");
    });
}
