//! A result of doctor, for tests and for the reference.

use kubexm_diagnose::doctor::{Area, Certainty, CheckResult, DoctorReport, Finding, Verdict};
use kubexm_session::Hopeless;
use kubexm_types::HostName;

fn host(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

/// Returns a cluster with swap on one host, without an API server that is ready.
pub fn report() -> DoctorReport {
    let check = |check, area, read, verdict| CheckResult {
        check,
        area,
        read,
        verdict,
        reason: (verdict == Verdict::Unknown).then(|| "no API server is ready".to_owned()),
    };
    DoctorReport {
        cluster: "example".to_owned(),
        hosts: 3,
        checks: vec![
            check(
                "clock",
                Area::Time,
                "the clock of each host, compared with this machine and with each other; its time service",
                Verdict::Ok,
            ),
            check(
                "swap",
                Area::Kernel,
                "/proc/swaps, /etc/fstab, swap units of systemd, and failSwapOn of the kubelet",
                Verdict::Problem,
            ),
            check(
                "kubelet",
                Area::Kubelets,
                "kubelet.service, and the health check of each kubelet",
                Verdict::Problem,
            ),
            check(
                "node",
                Area::Kubelets,
                "the conditions of each Node",
                Verdict::Unknown,
            ),
        ],
        findings: vec![
            Finding {
                check: "swap",
                area: Area::Kernel,
                hosts: vec![host("node2")],
                what: "swap is on: /swapfile".to_owned(),
                evidence: vec!["/swapfile file 1048572 0 -2".to_owned()],
                cause: "a kubelet does not start with swap, unless failSwapOn of its configuration is false".to_owned(),
                certainty: Certainty::Certain,
                fix: "turn swap off, also for the next boot".to_owned(),
                commands: vec![
                    "kubexm exec -f cluster.yaml --host node2 -- swapoff -a".to_owned(),
                ],
                follows: None,
                keeps_waiting: Some(Hopeless::Hosts([host("node2")].into())),
                is_warning: false,
            },
            Finding {
                check: "kubelet",
                area: Area::Kubelets,
                hosts: vec![host("node2")],
                what: "kubelet.service is activating (auto-restart), restarts: 12".to_owned(),
                evidence: Vec::new(),
                cause: "the node becomes NotReady".to_owned(),
                certainty: Certainty::Certain,
                fix: "read why it ends".to_owned(),
                commands: vec![
                    "kubexm logs -f cluster.yaml kubelet --host node2".to_owned(),
                ],
                follows: Some("swap"),
                keeps_waiting: None,
                is_warning: false,
            },
        ],
    }
}
