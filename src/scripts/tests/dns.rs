//! Scripts that check the DNS of a cluster.

use super::machine::Machine;
use crate::dns;

#[test]
fn corefile_that_kubexm_did_not_write_is_kept() {
    Machine::with_each_shell(|machine| {
        machine.write("/etc/kubernetes/admin.conf", "");
        let check = || {
            machine
                .run(dns::COREFILE_CHECK, &["/etc/kubexm/corefile.yaml"])
                .status
        };
        machine.fake(
            "kubectl",
            "case $* in *get*) printf \"$(cat /root/owner)\" ;; *diff*) exit 1 ;; esac",
        );
        machine.write("/root/owner", "");
        assert_eq!(check(), 0);
        machine.write("/root/owner", "configmap/coredns");
        assert_eq!(check(), 1);
        // No answer is not the answer that the Corefile is someone else's.
        machine.fake("kubectl", "exit 1");
        assert_eq!(check(), 75);
    });
}

#[test]
fn dns_error_is_not_an_answer() {
    Machine::with_each_shell(|machine| {
        let answers = |bytes: &str| {
            machine.fake("timeout", &format!("echo ' {bytes}'"));
            machine
                .run(dns::ANSWERS, &["10.96.0.10", "cluster.local"])
                .status
        };
        assert_eq!(answers("00 2a 12 34 81 80 00 01"), 0);
        assert_eq!(answers("00 2a 12 34 81 83 00 01"), 1);
        assert_eq!(answers("00 2a 12 34 01 80 00 01"), 1);
        assert_eq!(answers("00 2a 12"), 1);
    });
}
