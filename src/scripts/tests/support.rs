//! The script that collects the parts of a support bundle on a host.

use super::doctor::lines;
use super::machine::Machine;
use crate::doctor::{SUPPORT, SUPPORT_API};

/// Seconds that a part gets.
const SECONDS: &str = "60";
const API_SERVER: &str = "https://192.0.2.11:6443";

#[test]
fn files_with_keys_are_not_read() {
    Machine::with_each_shell(|machine| {
        let read = [
            "/etc/kubernetes/manifests/kube-apiserver.yaml",
            "/var/lib/kubelet/config.yaml",
            "/etc/containerd/certs.d/_default/hosts.toml",
            "/etc/kubexm/keepalived/keepalived.conf",
            "/etc/kubexm/haproxy/haproxy.cfg",
            "/var/lib/kubexm/receipt.jsonl",
            "/etc/cni/net.d/10-own.conf",
        ];
        for path in read {
            machine.write(path, &format!("of {path}\n"));
        }
        for path in [
            "/etc/kubernetes/admin.conf",
            "/etc/kubernetes/pki/ca.key",
            "/etc/kubernetes/encryption.yaml",
            "/etc/kubexm/registry/htpasswd",
            "/var/lib/kubelet/pki/kubelet-client-current.pem",
        ] {
            machine.write(path, "PLANTED in a file that stays\n");
        }
        machine.write("/var/log/pods/kube-system_a_1/a/0.log", "of the cluster\n");
        machine.write("/var/log/pods/default_web_1/web/0.log", "PLANTED\n");
        for program in ["journalctl", "kubectl", "iptables-save", "crictl", "ps"] {
            machine.fake(program, "echo answered");
        }
        for (part, expected) in [
            (&["host"][..], "= crictl-pods.txt\n|answered"),
            (
                &[
                    "configuration",
                    "/etc/containerd/certs.d/*/hosts.toml",
                    "/etc/kubexm/*/keepalived.conf",
                    "/etc/kubexm/*/haproxy.cfg",
                ],
                "= files/etc/cni/net.d/10-own.conf\n|of /etc/cni",
            ),
            (
                &["journal", "kubelet", "200"],
                "= journal/kubelet.log\n|answered",
            ),
            (&["pods", "200"], "|of the cluster"),
        ] {
            let printed = machine.done(SUPPORT, &[&[SECONDS], part].concat());
            lines(&printed);
            assert!(printed.contains(expected), "{printed}");
            assert!(!printed.contains("PLANTED"), "{printed}");
            for path in read.iter().filter(|_| part[0] == "configuration") {
                assert!(
                    printed.contains(&format!("= files{path}\n|of {path}\n")),
                    "{path}: {printed}"
                );
            }
        }
        let printed = machine.done(SUPPORT_API, &[SECONDS, API_SERVER]);
        assert!(
            printed.contains("= api/version.txt\n|answered\n"),
            "{printed}"
        );
        assert_eq!(machine.run(SUPPORT, &[SECONDS, "evil"]).status, 2);
    });
}

/// The values of variables in specifications and the data of Secrets stay where they are.
#[test]
fn api_is_not_asked_for_contents_of_secrets_and_specifications() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "");
        machine.done(SUPPORT_API, &[SECONDS, API_SERVER]);
        let calls = machine.calls();
        let of = |what: &str| calls.iter().find(|call| call.contains(what)).unwrap();
        assert!(of(" get secrets ").ends_with(" get secrets -A"));
        assert!(of("{.status}").contains(" get pods -A -o jsonpath="));
        let whole = |call: &&String| call.contains(" -o yaml") || call.contains(" -o json ");
        let may = |call: &&String| {
            ["configmap ", "webhookconfigurations"]
                .iter()
                .any(|kind| call.contains(kind))
        };
        assert_eq!(calls.iter().filter(whole).find(|call| !may(call)), None);
    });
}

/// The script read the last 60 logs of all pods, and of these the ones of the cluster.
#[test]
fn logs_of_users_do_not_displace_those_of_the_cluster() {
    Machine::with_each_shell(|machine| {
        for number in 10..80 {
            let path = format!("/var/log/pods/shop_web-{number}_1/web/0.log");
            machine.write(&path, "a\n");
        }
        for number in 10..72 {
            let path = format!("/var/log/pods/kube-system_pod-{number}_1/a/0.log");
            machine.write(&path, "keep\n");
        }
        let printed = machine.done(SUPPORT, &[SECONDS, "pods", "10"]);
        assert_eq!(printed.matches("\n|keep\n").count(), 60, "{printed}");
        let left_out = lines(&printed)[0];
        assert_eq!(left_out, "left_out=pods: 2 of 62 logs");
    });
}

/// A command that prints more than this fails, and its output is lost.
const LARGEST_OUTPUT: usize = 16 * 1024 * 1024;

#[test]
fn long_logs_lose_their_oldest_lines() {
    Machine::with_each_shell(|machine| {
        let old = format!("password: old {}\n", "x".repeat(2980)).repeat(2500);
        let text = format!("{old}the newest line\n");
        for number in 0..5 {
            let path = format!("/var/log/pods/kube-system_pod-{number}_1/a/0.log");
            machine.write(&path, &text);
        }
        machine.write("/root/log", &text);
        machine.fake("journalctl", "cat /root/log");
        for part in [&["journal", "kubelet", "9999"][..], &["pods", "9999"]] {
            let printed = machine.done(SUPPORT, &[&[SECONDS], part].concat());
            let sources = printed.matches("\n|[older lines are left out]\n").count();
            assert_eq!(sources, if part.len() == 3 { 1 } else { 5 });
            assert_eq!(
                printed.matches("\n|the newest line\n").count(),
                sources,
                "{part:?}"
            );
            // The line in which the newest bytes begin has a value without its name.
            let mut old = printed.lines().filter(|line| line.contains("xxx"));
            let has_name = |line: &str| line.starts_with("|password: old x");
            assert!(old.all(has_name), "{part:?}");
            assert!(printed.len() < LARGEST_OUTPUT, "{part:?}");
            lines(&printed);
        }
    });
}

#[test]
fn part_stays_below_the_largest_output_and_names_the_rest() {
    Machine::with_each_shell(|machine| {
        machine.write(
            "/root/objects",
            &format!("{}\n", "x".repeat(3990)).repeat(3000),
        );
        machine.fake("kubectl", "cat /root/objects");
        let printed = machine.done(SUPPORT_API, &[SECONDS, API_SERVER]);
        assert!(printed.len() < LARGEST_OUTPUT, "{}", printed.len());
        let found = lines(&printed);
        for line in [
            "= api/version.txt",
            "|[2750 more lines are left out]",
            "= api/events.txt",
            "|[older lines are left out]",
            "left_out=api/pod-states.jsonl: too large",
        ] {
            assert!(found.contains(&line), "{line}");
        }
    });
}

#[test]
fn questions_without_time_are_named() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "case $1$* in *version) echo v1 ;; esac; sleep 2");
        machine.write("/var/lib/kubelet/config.yaml", "a: b\n");
        machine.write("/var/log/pods/kube-system_a_1/a/0.log", "a\n");
        let printed = machine.done(SUPPORT_API, &["1", API_SERVER]);
        let found = lines(&printed);
        assert_eq!(found[..2], ["= api/version.txt", "|v1"], "{found:?}");
        assert!(found.contains(&"left_out=api/nodes.txt: no time"));
        for part in [
            &["configuration"][..],
            &["pods", "10"],
            &["journal", "kubelet", "10"],
        ] {
            let printed = machine.done(SUPPORT, &[&["0"], part].concat());
            let found = lines(&printed);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("left_out="), "{found:?}");
            assert!(found[0].ends_with(": no time"), "{found:?}");
        }
    });
}
